"""The flags of our commands, for pages and messages that name them."""

import argparse
import importlib


def flags_of(verb: str) -> set[str]:
    """As `--help` lists them, without itself."""
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(f"seq2seq.apps.{verb}").add_arguments(parser)
    return {flag for action in parser._actions for flag in action.option_strings}
