"""The Python of every document runs from top to bottom and prints what the document says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
WITH_PYTHON = [path for path in DOCS if "```python\n" in path.read_text(encoding="utf-8")]
# A text block right below a Python block is what that block prints.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


def script_of(document: str) -> str:
    """Its Python blocks on the lines where they stand, and a form feed printed after each."""
    script = re.sub(r"[^\n]", "", document).split("\n")
    for block in BLOCK.finditer(document):
        first = document[: block.start(1)].count("\n")
        lines = block[1].splitlines()
        script[first : first + len(lines)] = lines
        script[first + len(lines)] = r"print(end='\f')"
    return "\n".join(script)


@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda path: path.name)
def test_every_block_runs_after_those_above_it_and_prints_what_is_shown(
    path: Path, tmp_path: Path
) -> None:
    document = path.read_text(encoding="utf-8")
    script = tmp_path / f"{path.name}.py"  # a traceback shows the document's line numbers
    script.write_text(script_of(document), encoding="utf-8")
    command = [sys.executable, "-W", "error", script.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    shown = [block[2] or "" for block in BLOCK.finditer(document)]
    assert done.stdout.split("\f")[:-1] == shown


def test_code_stays_on_its_line_and_the_text_right_below_is_what_it_prints() -> None:
    document = """Title

```python
print(1)
```

```text
1
```

```python
assert True
```
Prose between.

```text
no output
```
"""
    end = r"print(end='\f')"
    lines = dict(enumerate(script_of(document).splitlines(), start=1))
    written = {number: line for number, line in lines.items() if line}
    assert written == {4: "print(1)", 5: end, 12: "assert True", 13: end}
    assert [block[2] for block in BLOCK.finditer(document)] == ["1\n", None]
