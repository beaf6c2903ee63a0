"""The pages that users read, and the code that stands in them."""

import re
from pathlib import Path
from textwrap import dedent


def page(name: str) -> str:
    """README.md, or docs/x.md."""
    return (Path(__file__).parents[1] / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The blocks of a page in this language, at least one, without the indentation of a list."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    assert found, language
    return list(map(dedent, found))


def commands_in(text: str) -> list[str]:
    """The lines of its blocks of bash, those that go on in the next line as one."""
    return "".join(blocks(text, "bash")).replace("\\\n", " ").splitlines()
