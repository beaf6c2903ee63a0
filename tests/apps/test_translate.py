"""The command, with a tiny random network: what it says, what it leaves behind, how it goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
import torch
from crowded_cores import crowd
from test_translator import LINES, TEXTS, random_network, subwords

from seq2seq.apps.engine_flags import same_translations
from seq2seq.cli import main
from seq2seq.config import SearchConfig
from seq2seq.data.output import Output
from seq2seq.decoding.request import Request
from seq2seq.decoding.search import Hypothesis
from seq2seq.engine import NativeEngine
from seq2seq.model_folder import SavedModel, save_model
from seq2seq.reports import picture

KILLED = Path(__file__).with_name("killed_translation.py")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with model/ and in (some of its lines are blank), which is where we are."""
    save_model(SavedModel(random_network(), subwords(), subwords()), tmp_path / "model")
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES), newline="\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def translate(*arguments: str) -> int:
    return main(["translate", "model", "in", "--device", "cpu", "--beam", "2", *arguments])


def translated(folder: Path, *arguments: str) -> bytes:
    assert translate("--output", "expected", *arguments) == 0
    return (folder / "expected").read_bytes()


def rounded(rows: bytes) -> list[str]:
    """The last digit of a score may depend on the batch: without it."""
    return re.sub(r"(?m)^(\d+\t-?\d+\.\d{2})\d*", r"\1", rows.decode()).splitlines()


Search = Callable[[NativeEngine, Sequence[Request], SearchConfig], list[list[Hypothesis]]]


def plant(monkeypatch: pytest.MonkeyPatch, fault: Callable[[Search], Search]) -> None:
    monkeypatch.setattr(NativeEngine, "search", fault(NativeEngine.search))


def interrupted_at(sentence: str) -> Callable[[Search], Search]:
    """Ctrl-C arrives while this sentence is searched."""

    def fault(search: Search) -> Search:
        def searching(
            self: NativeEngine, batch: Sequence[Request], config: SearchConfig
        ) -> list[list[Hypothesis]]:
            if subwords().encode(sentence) in [list(each.src) for each in batch]:
                raise KeyboardInterrupt
            return search(self, batch, config)

        return searching

    return fault


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize(("workers", "told"), [(1, 1), (2, 0)], ids=["told", "its own workers"])
def test_cores_that_other_processes_use_are_told(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    workers: int,
    told: int,
) -> None:
    expected = translated(here)
    capfd.readouterr()
    crowd(monkeypatch)
    assert translate("--output", "out", "--workers", str(workers)) == 0
    lines = capfd.readouterr().err.splitlines()
    assert sum(line.startswith("warning: other processes use the cores") for line in lines) == told
    assert (here / "out").read_bytes() == expected


def test_settings_of_speed_have_no_say_in_what_is_written_and_may_change_with_resume(
    here: Path,
) -> None:
    expected, good = translated(here), (here / "in").read_bytes()
    assert expected.count(b"\n") == len(LINES)
    for arguments in (["--batch-tokens", "1"], ["--workers", "1"], ["--verify", "3"]):
        assert translated(here, *arguments) == expected
        stop_after(here, b"".join(good.splitlines(keepends=True)[:3]))
        (here / "in").write_bytes(good)
        assert translate("--output", "out", "--resume", *arguments) == 0
        assert (here / "out").read_bytes() == expected


@pytest.mark.parametrize(
    ("engine", "sample", "free"),
    [
        ("native", True, True),
        ("onnx", True, True),
        ("ctranslate2", False, True),
        ("ctranslate2", True, False),
        ("huggingface", True, False),
    ],
)
def test_settings_of_speed_may_not_change_where_samples_are_drawn_for_a_batch(
    engine: str, sample: bool, free: bool
) -> None:
    same = same_translations(Namespace(sample=sample, engine=engine))
    assert {"batch_tokens", "device", "workers"} & same == same
    assert bool(same) == free


@pytest.mark.parametrize("n_best", [1, 2])
def test_ctrl_c_says_how_far_it_was_and_the_same_command_with_resume_goes_on(
    here: Path, n_best: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--n-best", str(n_best), "--output", "out"]
    expected = translated(here, "--n-best", str(n_best))
    lines = "".join(f"{text}\n" for text in [*LINES[:9], "kare tosu karela"])
    (here / "in").write_text(lines, newline="\n")
    beginning = translated(here, "--n-best", str(n_best))
    with monkeypatch.context() as patch:
        plant(patch, interrupted_at("kare tosu karela"))
        capsys.readouterr()
        assert translate(*common, "--batch-tokens", "1") == 130
    said = capsys.readouterr().err
    assert said.startswith("stopped. Lines finished: ")
    assert said.count("\n") == 1
    unfinished = (here / ".out.unfinished").read_bytes()
    assert unfinished
    assert rounded(beginning)[: unfinished.count(b"\n")] == rounded(unfinished)
    (here / "in").write_text("".join(f"{line}\n" for line in LINES), newline="\n")
    assert translate(*common, "--resume") == 0
    assert rounded((here / "out").read_bytes()) == rounded(expected)
    assert not (here / ".out.unfinished").exists()


def test_a_line_that_is_no_utf8_is_told_after_those_before_it_and_mended(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = translated(here)
    good = (here / "in").read_bytes()
    (here / "in").write_bytes(good.replace("今".encode(), b"\xff"))
    assert translate("--output", "out") == 2
    said = capsys.readouterr().err
    assert "in line 16: byte 0xff at column 8 is not UTF-8" in said
    assert "Lines finished: 15, in " in said
    assert said.count("\n") == 1
    (here / "in").write_bytes(good)
    assert translate("--output", "out", "--resume") == 0
    assert (here / "out").read_bytes() == expected


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("terminal", [True, False])
def test_a_pipe_is_read_once_and_whole(
    here: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """Also where a bar is shown, whose length would be that of the file."""
    (here / "prefixes").write_text("kare\n" * len(LINES))
    expected = translated(here, "--prefix", "prefixes")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    for name in ("in", "prefixes"):
        (here / name).rename(here / f"{name}.txt")
        os.mkfifo(here / name)
    writers = [
        threading.Thread(target=lambda n=name: Path(n).write_bytes(Path(f"{n}.txt").read_bytes()))
        for name in ("in", "prefixes")
    ]
    for writer in writers:
        writer.start()
    assert translate("--prefix", "prefixes", "--output", "out") == 0
    for writer in writers:
        writer.join()
    assert (here / "out").read_bytes() == expected


def test_a_bar_does_not_change_what_is_written_before_a_line_that_is_no_utf8(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "in").write_bytes(b"kare\n\xff\n")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert translate("--output", "out") == 2
    assert "Lines finished: 1, in " in capsys.readouterr().err


def test_closed_streams_are_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdin", None)
        assert main(["translate", "model", "--device", "cpu"]) == 2
        assert "standard input is closed" in capsys.readouterr().err
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        assert translate() == 2
    assert "standard output is closed" in capsys.readouterr().err


def test_what_is_said_where_standard_error_is_closed_goes_nowhere(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert translate("--output", "out") == 0
    assert (here / "out").exists()
    sys.stderr.close()


def stop_after(here: Path, lines: bytes) -> None:
    """Leave an unfinished output of these lines, which end before one that is no UTF-8."""
    (here / "in").write_bytes(lines + b"\xff\n")
    assert translate("--output", "out") == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--beam", "3"], "begun with --beam 2, not 3"),
        (["--max-length", "99"], "begun with --max-length 256, not 99"),
        (["--diversity-groups", "2"], "begun with --diversity-groups None, not 2;"),
    ],
)
def test_resume_with_other_settings_is_refused(
    here: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(here, b"kare\n")
    assert translate("--output", "out", "--resume", *arguments) == 2
    assert said in capsys.readouterr().err


def test_resume_with_another_model_in_the_ensemble_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(SavedModel(random_network(1), subwords(), subwords()), here / "other")
    together = ["--output", "out", "--ensemble"]
    (here / "in").write_bytes(b"kare\n\xff\n")
    assert translate(*together, "other") == 2
    for members in ([], ["model"], ["other", "model"]):
        assert translate(*together[: 2 + bool(members)], *members, "--resume") == 2
        assert "begun with --ensemble " in capsys.readouterr().err
    (here / "in").write_bytes(b"kare\nmino\n")
    save_model(SavedModel(random_network(2), subwords(), subwords()), here / "other")
    assert translate(*together, "./other", "--resume") == 2
    assert "begun with --ensemble 1 written at " in capsys.readouterr().err


def test_resume_with_another_model_of_the_other_direction_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(SavedModel(random_network(1), subwords(), subwords()), here / "other")
    together = ["--output", "out", "--rerank"]
    (here / "in").write_bytes(b"kare\n\xff\n")
    assert translate(*together, "other") == 2
    for changed in ([], ["--rerank", "model"], ["--rerank", "other", "--rerank-weight", "0.5"]):
        assert translate("--output", "out", *changed, "--resume") == 2
        assert "begun with --rerank" in capsys.readouterr().err
    (here / "in").write_bytes(b"kare\nmino\n")
    assert translate(*together, "./other", "--resume") == 0
    assert len((here / "out").read_text().splitlines()) == 2


def test_resume_with_a_glossary_that_has_changed_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms, command = here / "terms", ["--output", "out", "--glossary"]
    terms.write_text("kare\tmino\n")
    (here / "in").write_bytes(b"kare\n\xff\n")
    assert translate(*command, "terms") == 2
    (here / "in").write_bytes(b"kare\nmino\n")
    (here / "same").symlink_to("terms")
    before = terms.stat()
    terms.write_text("kare\ttosu\n")
    os.utime(terms, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert translate(*command, "terms", "--resume") == 2
    assert "begun with --glossary written at " in capsys.readouterr().err
    os.utime(terms, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert translate(*command, "same", "--resume") == 0


def test_resume_does_not_draw_other_sentences_for_the_first_ones(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(here, b"kare\n")
    (here / "in").write_bytes(b"kare\nmino\n")
    assert translate("--output", "out", "--resume", "--attention", "maps.html") == 2
    assert "maps.html draws the first sentences, which are finished" in capsys.readouterr().err
    assert not Path("maps.html").exists()
    assert translate("--output", "out", "--resume") == 0


def test_resume_with_an_input_that_is_shorter_than_what_is_finished_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stop_after(here, b"kare\nmino\n")
    (here / "in").write_bytes(b"kare\n")
    assert translate("--output", "out", "--resume") == 2
    assert "--resume: the input has 1 lines, but more are finished" in capsys.readouterr().err
    assert translate("--resume") == 2
    assert "--resume goes on with a file: name it with --output" in capsys.readouterr().err


def test_lines_that_are_too_long_are_split_and_counted_or_an_error(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = ["kare tosu mino."] * 3
    (here / "in").write_text(f"kare\n{' '.join(sentences)}\nmino\n")
    longest = max(len(subwords().encode(text)) + 1 for text in sentences)
    assert translate("--max-length", str(longest)) == 0
    said = capsys.readouterr()
    assert f"lines of more than {longest} subwords, which were split: 1 " in said.err
    (here / "in").write_text("".join(f"{line}\n" for line in ["kare", *sentences, "mino"]))
    assert translate() == 0
    first, *parts, last = capsys.readouterr().out.splitlines()
    assert said.out.splitlines() == [first, " ".join(parts), last]
    (here / "in").write_text(f"kare\n{' '.join(sentences)}\nmino\n")
    assert translate("--max-length", str(longest), "--too-long", "error") == 2
    said = capsys.readouterr()
    assert said.out.splitlines() == [first]
    assert f"line 2 has {len(subwords().encode(' '.join(sentences))) + 1} subwords" in said.err
    assert f"but --max-length is {longest}; " in said.err


def test_a_line_that_was_split_has_no_second_look(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even with learned positions, where the whole would be too long for one."""
    network = random_network(positions="learned", max_positions=12)
    save_model(SavedModel(network, subwords(), subwords()), here / "model")
    long = " ".join(["kare tosu"] * 6)
    (here / "in").write_text(f"kare\n{long}\nmino\n")
    assert translate() == 0
    texts = capsys.readouterr().out.splitlines()
    told = "--token-scores", "--alignment", "--attention", "maps.html"
    assert translate(*told) == 0
    rows = [row.split("\t") for row in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == texts
    assert rows[1][1:] == ["", "", ""]
    assert all(rows[line][2] for line in (0, 2))
    assert long not in (here / "maps.html").read_text()
    assert translate(*told[:2], "--output-format", "jsonl") == 0
    row = json.loads(capsys.readouterr().out.splitlines()[1])
    assert (row["alignment"], row["tokens"], row["token_scores"]) == ("", [], [])


def test_a_picture_that_is_too_large_takes_no_translation_along(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = translated(here)
    monkeypatch.setattr(picture, "MOST_PIXELS", 100)
    capsys.readouterr()
    assert translate("--output", "out", "--attention", "maps.png") == 2
    assert "a PNG would have" in capsys.readouterr().err
    assert (here / "out").read_bytes() == expected
    assert not (here / "maps.png").exists()


def test_verify_finds_nothing_where_nothing_is_wrong(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert translate("--verify", "7") == 0
    said = capsys.readouterr().err
    assert said == "verify: 7 lines translated again, alone: 7 same, 0 tie, 0 different\n"


def test_verify_finds_what_batch_mates_have_changed(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fault(search: Search) -> Search:
        def padding_counts(
            self: NativeEngine, batch: Sequence[Request], config: SearchConfig
        ) -> list[list[Hypothesis]]:
            longest = max(len(each.src) for each in batch)
            padded = [Request([*each.src, *[9] * (longest - len(each.src))]) for each in batch]
            return search(self, padded, config)

        return padding_counts

    plant(monkeypatch, fault)
    assert translate("--verify", "99") == 1
    *lines, summary = capsys.readouterr().err.splitlines()
    assert f"{len(LINES)} lines translated again" in summary
    assert lines
    assert all(" different: " in line for line in lines)


@pytest.mark.filterwarnings("ignore:out of memory")
def test_running_out_of_memory_changes_no_translation(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, attempts = translated(here), list[int]()

    def fault(search: Search) -> Search:
        def tight(
            self: NativeEngine, batch: Sequence[Request], config: SearchConfig
        ) -> list[list[Hypothesis]]:
            attempts.append(len(batch))
            if len(batch) > 3:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return search(self, batch, config)

        return tight

    plant(monkeypatch, fault)
    assert translated(here) == expected
    assert max(attempts) > 3


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--batch-tokens", "0"), ("--workers", "0"), ("--max-length", "1"), ("--verify", "-1")],
)
def test_a_setting_that_cannot_work_is_named(
    here: Path, flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert translate(flag, value) == 2
    assert f"{flag}={value} is out of range" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--output", "./in"], "--output in is read or written already"),
        (["--output", "p", "--prefix", "p"], "--output p is read or written already"),
        (["--output", "g", "--glossary", "g"], "--output g is read or written already"),
        (["--output", "a.html", "--attention", "a.html"], "--attention a.html is read or written"),
        (["--output", "out.de.gz"], "name it out.de, and pack it afterwards"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_output_that_is_read_or_would_not_be_what_its_name_says_is_refused(
    here: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "p").write_text("\n" * len(LINES))
    (here / "g").touch()
    before = {path: path.read_bytes() for path in here.iterdir() if path.is_file()}
    assert translate(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
    assert {path: path.read_bytes() for path in here.iterdir() if path.is_file()} == before


def test_an_input_that_is_not_there_is_told_before_the_model_is_loaded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["translate", "no-model", "no-input"]) == 2
    assert capsys.readouterr().err == "error: no-input does not exist.\n"


@pytest.mark.parametrize("arguments", ["rows.tsv", "in --prefix rows.tsv", "rows.tmx.gz"])
def test_lines_of_a_format_with_both_sides_are_no_sentences(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", "no-model", *arguments.split()]) == 2
    said = f"{arguments.split()[-1]} is not a text of one side, as its ending tells"
    assert capsys.readouterr().err.startswith(f"error: {said}")


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, timeout=300, env={**os.environ, **environment}
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("n_best", ["1", "2"])
def test_a_translation_killed_in_the_middle_goes_on_to_the_same_file(
    here: Path, workers: str, n_best: str
) -> None:
    (here / "in").write_text("".join(f"{text}\n" for text in TEXTS * 4), newline="\n")
    expected = translated(here, "--n-best", n_best)
    command = ["translate", "model", "in", "--device", "cpu", "--beam", "2", "--output", "out"]
    command += ["--batch-tokens", "16", "--n-best", n_best, "--workers", workers]
    for line in ("100", "300"):
        done = run(here, str(KILLED), *command, "--resume", KILL_AT=line)
        assert done.returncode == -signal.SIGKILL
        unfinished = (here / ".out.unfinished").read_bytes()
        assert unfinished.count(b"\n") >= int(line) * int(n_best)
        assert rounded(expected)[: unfinished.count(b"\n")] == rounded(unfinished)
    assert run(here, "-m", "seq2seq", *command, "--resume").returncode == 0
    assert rounded((here / "out").read_bytes()) == rounded(expected)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_in_a_terminal_is_one_line_and_status_130(here: Path, workers: str) -> None:
    """The signal goes to all processes of the group, as a terminal sends it."""
    (here / "in").write_text("".join(f"{text}\n" for text in TEXTS * 100), newline="\n")
    command = [sys.executable, "-m", "seq2seq", "translate", "model", "in", "--device", "cpu"]
    command += ["--output", "out", "--beam", "1", "--batch-tokens", "64", "--workers", workers]
    process = subprocess.Popen(
        command,
        cwd=here,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's & ignores it
    )
    unfinished = here / ".out.unfinished"
    while not unfinished.exists() or unfinished.stat().st_size < 1000:
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=300)[1].decode()
    assert process.returncode == 130
    assert said.startswith("stopped. Lines finished: ")
    assert said.count("\n") == 1
    finished = unfinished.read_text().count("\n")
    assert f"Lines finished: {finished}, in" in said


def test_ctrl_c_between_lines_that_are_ready_writes_none_twice(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = ["--token-scores", "--output", "out"]
    expected = translated(here, "--token-scores")
    write = Output.write

    def writing(self: Output, rows: Iterable[str]) -> None:
        write(self, rows)
        if self.done == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Output, "write", writing)
        patch.setattr("seq2seq.apps.translate.LOOKED_AT", 4)
        assert translate(*told) == 130
    assert (here / ".out.unfinished").read_bytes().count(b"\n") == 3
    assert translate(*told, "--resume") == 0
    assert rounded((here / "out").read_bytes()) == rounded(expected)
