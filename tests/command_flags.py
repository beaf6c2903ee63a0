"""The flags of our commands, for pages and messages that name them."""

import argparse
import importlib


def actions_of(verb: str) -> list[argparse.Action]:
    """What a command takes, without `--help`."""
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(f"seq2seq.apps.{verb}").add_arguments(parser)
    return parser._actions


def flags_of(verb: str) -> set[str]:
    """As `--help` lists them, without itself."""
    return {flag for action in actions_of(verb) for flag in action.option_strings}
