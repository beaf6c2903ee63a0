"""Cores that other processes seem to use."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from seq2seq import cores


def crowd(monkeypatch: pytest.MonkeyPatch, seconds: float = 1.5, threads: int = 2) -> None:
    """All threads together wait for so many seconds of each, on a clock that each look moves on by
    one second; every second look is long enough after the one before, and the waits are read."""
    clock = SimpleNamespace(perf_counter=itertools.count().__next__)
    monkeypatch.setattr(cores, "time", clock)
    monkeypatch.setattr(cores, "waited", itertools.count(100, 2 * seconds).__next__)
    monkeypatch.setattr(cores, "WATCHED", 2.0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
