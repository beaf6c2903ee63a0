"""Fixtures of small_runs.py for every test in this folder."""

from small_runs import corpus, run

__all__ = ["corpus", "run"]
