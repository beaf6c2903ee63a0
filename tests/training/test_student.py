"""What a student learns from what its teacher says, and from nothing else."""

import random
import re
from pathlib import Path

import pytest
from small_runs import Run, settings

LEARNING: dict[str, object] = {
    "training__lr": 0.005,
    "training__warmup_steps": 50,
    "training__schedule": "linear",
    "training__dropout__residual": 0,
    "trainer__max_steps": 400,
    "trainer__val_check_interval": 400,
}


@pytest.mark.slow
def test_a_smaller_student_learns_from_sources_that_only_its_teacher_has_translated(
    corpus: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    teacher = {"run": "teacher", "model__d_model": 64, "model__ff_dim": 128}
    assert run("fit", *settings(**LEARNING, **teacher)) == 0
    words, rng = [a + b for a in "bdfg" for b in "aei"], random.Random(2)
    lines = [" ".join(rng.choices(words, k=rng.randint(2, 5))) for _ in range(3000)]
    (corpus / "more.src").write_text("".join(f"{line}\n" for line in lines))
    assert run("distill", "teacher", "more.src", "--output", "distilled.tsv") == 0
    student = settings(run="student", **LEARNING)
    for side in ("src", "tgt"):
        place = student.index(f"--data.train.{side}")
        del student[place : place + 2]
    assert run("fit", "--data.train.path", "distilled.tsv", *student) == 0
    weights = [
        path / "model/weights.safetensors" for path in (corpus / "teacher", corpus / "student")
    ]
    assert weights[1].stat().st_size < weights[0].stat().st_size / 2
    capsys.readouterr()
    assert run("test", "--config", "student/config.yaml") == 0
    bleu = re.search(r"^small: BLEU (\d+\.\d+)", capsys.readouterr().out, re.MULTILINE)
    assert bleu is not None
    assert float(bleu[1]) > 80
