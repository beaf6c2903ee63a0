"""Training says which other libraries its model can be exported to."""

from pathlib import Path

import pytest
import pytorch_lightning as pl

from seq2seq.apps.train import Reach, _fit_callbacks
from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.training.module import TranslationModule
from seq2seq.training.recipe import Recipe
from seq2seq.training.record import Record


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (ModelConfig(), "model can be exported to ctranslate2"),
        (ModelConfig(encoder_layers=0), "not to ctranslate2 (model.encoder_layers=0: "),
    ],
)
def test_a_fit_begins_with_one_line_about_exports(
    config: ModelConfig, said: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level("INFO")
    callbacks = _fit_callbacks(tmp_path, Recipe(), Record({}))
    (reach,) = [each for each in callbacks if isinstance(each, Reach)]
    module = TranslationModule(config, Recipe(), SearchConfig())
    reach.on_train_start(pl.Trainer(logger=False, accelerator="cpu"), module)
    (record,) = [each for each in caplog.messages if "exported" in each]
    assert said in record
