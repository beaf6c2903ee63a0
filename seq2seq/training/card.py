"""Test scores join the card of the model that was tested."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pytorch_lightning.utilities import rank_zero_warn

from seq2seq.config import SearchConfig
from seq2seq.errors import ModelFolderError, UserError
from seq2seq.evaluation.metrics import Score
from seq2seq.model_facts import load_provenance, save_provenance
from seq2seq.model_folder import WEIGHTS, find_model
from seq2seq.provenance import CARD, PROVENANCE, with_corpora
from seq2seq.training.datamodule import CorpusDataModule


def written_at(model: str | Path) -> int:
    """When the weights of the model were written, in nanoseconds."""
    return (find_model(model) / WEIGHTS).stat().st_mtime_ns


def put_on_card(
    folder: Path,
    written: int,
    data: CorpusDataModule,
    search: SearchConfig,
    scores: Mapping[str, Sequence[Score]],
) -> None:
    """Write the scores of the test sets, by name, into the folder of the model that was `written`
    at that time. If that fails, only warn: the scores have been printed already."""
    try:
        if written_at(folder) != written:
            raise ModelFolderError(f"{folder} was written anew during the test; test it again.")
        tested, terms = data.origins("test")
        for corpus in tested:
            corpus["scores"] = [
                {"name": each.name, "value": each.value, "signature": each.signature}
                for each in scores[corpus["name"]]
            ]
            corpus["search"] = asdict(search)
        if save_provenance(folder, with_corpora(load_provenance(folder), tested, terms)):
            print(f"model card: {folder / CARD}")
        else:
            rank_zero_warn(
                f"{folder / CARD} was edited, so it stays as it is, and the scores are in "
                f"{PROVENANCE} alone; remove it, and the next test writes a new one."
            )
    except (OSError, UserError) as error:
        rank_zero_warn(f"{folder / CARD} does not get these scores: {error}")
