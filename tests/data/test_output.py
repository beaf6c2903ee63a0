"""Where finished lines go, and that no end of the process loses them."""

import fcntl
import io
import json
import os
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from full_disk import room_for

from seq2seq.data import output
from seq2seq.data.output import check_output, open_output
from seq2seq.errors import ConfigError

MADE_WITH = {"MODEL": "m", "--beam": "5"}
ROWS: dict[int | None, list[list[str]]] = {
    None: [["eins"], [""], ["zwei drei"], ["今"], ["vier"]],
    0: [["0\tein", "0\teins"], ["1\t"], ["2\tzwei", "2\tdrei", "2\tvier"], ["3\t今"]],
    2: [["a\t\t0", "a\teins\t0\t"], [], ["c\tzwei\t2"], [], ["今\t\t4\t-0.1", "今\t7\t4"], []],
}
"""Of each line of input, by the column of its number."""


def whole(rows: list[list[str]]) -> bytes:
    return "".join(f"{row}\n" for each in rows for row in each).encode()


def write(path: Path, rows: list[list[str]], number_column: int | None = None) -> int:
    """The command with --resume, in small -> how many lines it found finished."""
    with open_output(path, MADE_WITH, resume=True, number_column=number_column) as output:
        done = output.done
        for each in rows[done:]:
            output.write(each)
    return done


def stop_after(rows: list[list[str]], path: Path) -> None:
    with open_output(path, MADE_WITH) as output:
        for each in rows:
            output.write(each)
        raise ZeroDivisionError


def test_a_file_written_at_once_is_whole_or_the_one_before(tmp_path: Path) -> None:
    path, link = tmp_path / "page.html", tmp_path / "link.html"
    link.symlink_to(path)
    output.write("--html", link, "before")
    with room_for(4), pytest.raises(ConfigError, match=r"--html \S+ cannot be written: File too"):
        output.write("--html", link, "what comes after")
    assert path.read_text() == "before"
    assert sorted(tmp_path.iterdir()) == [link, path]
    assert link.is_symlink()


def test_a_file_that_is_written_at_once_is_written_by_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with output.replacing(path, "--html page.html") as unfinished:
        unfinished.write_text("one")
        with pytest.raises(ConfigError, match=r"^--html \S+ is being written by another command"):
            output.write("--html", path, "two")
    assert path.read_text() == "one"
    output.write("--html", path, "two")
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_grows_line_by_line_is_not_written_at_once_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with open_output(path, MADE_WITH) as lines:
        lines.write(["eins"])
        with pytest.raises(ConfigError, match=r"^--html \S+ is being written by another command"):
            output.write("--html", path, "page")
        lines.write(["zwei"])
    assert path.read_text() == "eins\nzwei\n"
    with (
        output.replacing(path, "--html out"),
        pytest.raises(ConfigError, match=r"^--output \S+ is being written by another command"),
        open_output(path, MADE_WITH, resume=True),
    ):
        pass
    assert path.read_text() == ""
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_leads_nowhere_but_to_itself_is_replaced(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / one).symlink_to(other)
    check_output("--html", tmp_path / "a", [])
    output.write("--html", tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text"


@pytest.mark.parametrize("number_column", [None, 0, 2])
def test_a_file_killed_at_any_byte_goes_on_to_the_same_file(
    tmp_path: Path, number_column: int | None
) -> None:
    rows, path = ROWS[number_column], tmp_path / "out"
    written = whole(rows)
    last: int | None = None
    for size in range(len(written) + 1):
        (tmp_path / ".out.unfinished").write_bytes(written[:size])
        (tmp_path / ".out.settings").write_text(json.dumps(MADE_WITH))
        done = write(path, rows, number_column)
        assert path.read_bytes() == written
        assert os.listdir(tmp_path) == ["out"]
        assert whole(rows[:done]) == written[: len(whole(rows[:done]))]
        assert len(whole(rows[:done])) <= size
        if number_column is None:
            assert len(whole(rows[: done + 1])) > size or done == len(rows)
        last = done
    # Of numbered rows the last line may lack some.
    lines_with_rows = [number for number, each in enumerate(rows) if each]
    assert last == (len(rows) if number_column is None else lines_with_rows[-1])


def test_each_line_is_in_the_file_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with open_output(tmp_path / "out", MADE_WITH) as output:
        for number, rows in enumerate(ROWS[None], start=1):
            output.write(rows)
            assert (tmp_path / ".out.unfinished").read_bytes() == whole(ROWS[None][:number])
            assert not (tmp_path / "out").exists()
            assert f"Lines finished: {number}, in" in output.state
    assert (tmp_path / "out").read_bytes() == whole(ROWS[None])


@pytest.mark.parametrize("number_column", [None, 0, 2])
def test_the_lines_that_an_end_tells_of_are_those_that_the_next_command_goes_on_after(
    tmp_path: Path, number_column: int | None
) -> None:
    """However far its count had come: Ctrl-C may fall between a line and its count."""
    rows, path = ROWS[number_column], tmp_path / "out"
    for count in range(1, len(rows)):
        with (
            suppress(KeyboardInterrupt),
            open_output(path, MADE_WITH, number_column=number_column) as output,
        ):
            for each in rows[:count]:
                output.write(each)
            output.done -= 1
            said = output.state
            raise KeyboardInterrupt
        if done := write(path, rows, number_column):
            assert said.startswith(f"Lines finished: {done}, in")
        else:
            assert said == "Nothing is written."


def test_an_error_leaves_the_unfinished_file_and_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("of yesterday\n")
    with suppress(KeyboardInterrupt), open_output(tmp_path / "out", MADE_WITH) as output:
        output.write(["eins"])
        raise KeyboardInterrupt
    assert (tmp_path / "out").read_text() == "of yesterday\n"
    assert (tmp_path / ".out.unfinished").read_text() == "eins\n"
    with open_output(tmp_path / "out", MADE_WITH) as output:  # begins again
        assert output.done == 0
    assert (tmp_path / "out").read_text() == ""


def test_a_disk_that_is_full_keeps_what_fitted_and_goes_on_later(tmp_path: Path) -> None:
    rows, path = [[f"{number:09}"] for number in range(20)], tmp_path / "out"
    with room_for(123), pytest.raises(ConfigError, match=r"--output .*out cannot be written: File"):
        write(path, rows)
    assert (tmp_path / ".out.unfinished").read_bytes() == whole(rows)[:123]
    assert write(path, rows) == 12
    assert path.read_bytes() == whole(rows)


def test_a_disk_that_was_full_from_the_beginning_is_begun_on_later(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with room_for(9), pytest.raises(ConfigError, match=r"--output .*out cannot be written: File"):
        write(path, ROWS[None])
    assert write(path, ROWS[None]) == 0
    assert path.read_bytes() == whole(ROWS[None])
    assert os.listdir(tmp_path) == ["out"]


def test_what_no_line_was_finished_of_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        stop_after([], tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_other_settings_cannot_go_on(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        stop_after([["eins"]], tmp_path / "out")
    others = {"MODEL": "m", "--beam": "4"}
    expected = r"begun with --beam 5, not 4; use the same again, or begin again without --resume"
    with (
        pytest.raises(ConfigError, match=expected),
        open_output(tmp_path / "out", others, resume=True),
    ):
        pass
    (tmp_path / ".out.settings").unlink()
    with (
        pytest.raises(ConfigError, match=r"\.out\.settings is gone"),
        open_output(tmp_path / "out", MADE_WITH, resume=True),
    ):
        pass


WRITER = """
import sys
from pathlib import Path
from seq2seq.data.output import open_output
with open_output(Path("out"), {"MODEL": "m"}) as output:
    output.write(["eins"])
    print("written", flush=True)
    sys.stdin.readline()
    output.write(["zwei"])
"""


@pytest.mark.parametrize("resume", [False, True])
def test_what_another_process_writes_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-c", WRITER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "written\n"
        expected = "--output out is being written by another command; wait for it, or choose"
        with (
            pytest.raises(ConfigError, match=expected),
            open_output(Path("out"), {"MODEL": "other"}, resume=resume),
        ):
            pass
        other.stdin.write("\n")
    assert other.returncode == 0
    assert Path("out").read_text() == "eins\nzwei\n"
    assert os.listdir() == ["out"]
    write(Path("out"), [["drei"]])
    assert Path("out").read_text() == "drei\n"


def test_a_lock_on_a_file_that_was_finished_meanwhile_is_not_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finishes the file between our opening of its settings and our lock."""
    path, lock, finish = tmp_path / "out", fcntl.flock, ExitStack()
    finish.enter_context(open_output(path, MADE_WITH)).write(["eins"])

    def late(file: Any, operation: int) -> None:
        finish.close()
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with open_output(path, MADE_WITH) as output:
        assert path.read_text() == "eins\n"
        with pytest.raises(ConfigError, match="another command"), open_output(path, MADE_WITH):
            pass
        output.write(["zwei"])
    assert path.read_text() == "zwei\n"
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    expected = r"--output .*none/out cannot be written: No such file or directory"
    with pytest.raises(ConfigError, match=expected), open_output(tmp_path / "none/out", MADE_WITH):
        pass


def test_a_device_is_written_to_and_not_replaced() -> None:
    with open_output(Path(os.devnull), MADE_WITH) as output:
        output.write(["eins"])
        assert output.state == "Lines written: 1."
    assert Path(os.devnull).is_char_device()


def test_an_open_file_goes_on_where_it_stands(tmp_path: Path) -> None:
    """As under `seq2seq ... --output /dev/stdout >> out`."""
    path, link = tmp_path / "out", tmp_path / "link"
    with path.open("w+b", buffering=0) as out:
        link.symlink_to(f"/dev/fd/{out.fileno()}")
        out.write(b"before\n")
        for each in (link, Path(f"/dev/fd/{out.fileno()}")):
            with open_output(each, MADE_WITH) as lines:
                lines.write(["eins"])
            output.write("--html", each, "zwei\n")
        assert sorted(tmp_path.iterdir()) == [link, path]
        path.unlink()  # like a file of tempfile.TemporaryFile()
        output.write("--html", link, "drei\n")
        out.write(b"after\n")
        out.seek(0)
        assert out.read() == b"before\neins\nzwei\neins\nzwei\ndrei\nafter\n"
    assert list(tmp_path.iterdir()) == [link]


def test_a_file_that_is_read_is_told_by_whatever_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").touch()
    Path("link").symlink_to("in")
    Path("folder").mkdir()
    for name in ("in", "./in", "folder/../in", "link", tmp_path / "in"):
        with pytest.raises(ConfigError, match=f"--html {Path(name)} is read or written already"):
            check_output("--html", Path(name), [None, "other", "in"])
    check_output("--html", Path("out"), [None, "other", "in"])
    check_output("--html", Path(os.devnull), [os.devnull])


def test_a_full_device_is_one_clear_line() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    expected = r"--output /dev/full cannot be written: No space left on device\."
    with (
        pytest.raises(ConfigError, match=expected),
        open_output(Path("/dev/full"), MADE_WITH) as output,
    ):
        output.write(["eins"])


def test_without_a_path_it_is_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_ = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_, "ascii"))
    with open_output(None, MADE_WITH) as output:
        output.write(["今", "zwei"])
    assert bytes_.getvalue() == "今\nzwei\n".encode()
