from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphdoc.errors import SettingsError
from graphdoc.settings.loading import load_chosen, load_settings
from graphdoc.settings.run import RunSettings
from graphdoc.settings.sentence_pairs import SentencePairSettings
from graphdoc.settings.sub_documents import PretrainingSettings

CONFIGS = Path(__file__).parents[2] / "configs" / "pretrain"
KINDS: list[type[RunSettings]] = [PretrainingSettings, SentencePairSettings]
PAIRS = ("corpus.source=papers/", "recipe=sentence_pairs")


def test_the_paper_is_a_recipe() -> None:
    """SDR, sections 3.2 and 4.7."""
    settings = load_settings(SentencePairSettings, CONFIGS / "sdr.yaml")
    assert (settings.model.start, settings.model.tune) == ("roberta-large", "full")
    loss = settings.loss
    assert (loss.margin, loss.mlm_weight, loss.contrast_weight, loss.contrast_on) == (1.0, 1.0, 1.0, "masked")
    training = settings.training
    assert (training.batch_size, training.epochs, training.optimizer, training.learning_rate) == (8, 50, "adamw", 2e-5)
    assert settings.pairs_per_epoch is None
    assert settings.evaluation.held_out == 0.1
    model = settings.model.settings
    assert (model["pooling"], model["projection_size"], model["graph_layers"]) == ("mean", None, 0)


def test_the_published_code_is_a_recipe() -> None:
    settings = load_settings(SentencePairSettings, CONFIGS / "sdr_published.yaml")
    assert (settings.loss.contrast_weight, settings.loss.contrast_on) == (0.1, "clean")
    assert settings.pairs_per_epoch == 10_000 * 16
    assert settings.model.settings["passage_tokens"] == 64


def test_the_key_chooses_the_settings() -> None:
    assert type(load_chosen(KINDS, overrides=PAIRS)) is SentencePairSettings
    for overrides in (PAIRS[:1], [*PAIRS[:1], "recipe=sub_documents"]):
        assert type(load_chosen(KINDS, overrides=overrides)) is PretrainingSettings
    assert load_chosen(KINDS, overrides=[*PAIRS, "pairs_per_epoch=80"]).as_values()["recipe"] == "sentence_pairs"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ([*PAIRS, "split=half"], ["split ", "recipe=sub_documents"]),
        ([*PAIRS, "loss.directions=one"], ["loss.directions ", "recipe=sub_documents"]),
        ([*PAIRS[:1], "loss.mlm_weight=2"], ["loss.mlm_weight ", "recipe=sentence_pairs"]),
        ([*PAIRS[:1], "recipe=sdr"], ["recipe='sdr'", "sub_documents", "sentence_pairs"]),
        ([*PAIRS[:1], "recipe=[1]"], ["recipe=[1]", "sub_documents", "sentence_pairs"]),
        ([*PAIRS, "loss.margn=2"], ["loss.margn ", "loss.margin"]),
        ([*PAIRS, "model.tune=frozen"], ["model.tune='frozen'", "full or lora"]),
        ([*PAIRS, "loss.mlm_weight=0", "loss.contrast_weight=0"], ["loss.mlm_weight=0", "loss.contrast_weight=0"]),
        ([*PAIRS, "loss.contrast_weight=0", "loss.contrast_on=clean"], ["loss.contrast_on='clean'", "no effect"]),
        ([*PAIRS, "loss.contrast_weight=0", "loss.negatives=batch"], ["loss.negatives='batch'", "no effect"]),
        ([*PAIRS, "loss.temperature=0.1"], ["loss.temperature=0.1", "no effect", "loss.negatives=batch"]),
        ([*PAIRS, "loss.negatives=batch", "loss.margin=2"], ["loss.margin=2", "no effect", "loss.negatives=batch"]),
        ([*PAIRS, "loss.negatives=batch", "loss.temperature=0"], ["loss.temperature=0"]),
        ([*PAIRS, "loss.negatives=all"], ["loss.negatives='all'", "drawn", "batch"]),
        (
            [*PAIRS, "loss.negatives=batch", "training.batch_size=1"],
            ["training.batch_size=1", "loss.negatives=batch"],
        ),
        (
            [*PAIRS, "loss.negatives=batch", "evaluation.most_pairs=10001"],
            ["evaluation.most_pairs=10001", "loss.negatives=batch", "10,000"],
        ),
        ([*PAIRS, "evaluation.best=accuracy"], ["evaluation.best='accuracy'"]),
        ([*PAIRS, "loss.margin=2.5"], ["loss.margin=2.5", "2"]),
        ([*PAIRS, "pairs_per_epoch=7"], ["pairs_per_epoch=7", "training.batch_size=8"]),
        ([*PAIRS, "corpus.streaming=true"], ["corpus.streaming=true", "recipe=sub_documents"]),
        ([*PAIRS, "evaluation.best=nmi"], ["evaluation.best='nmi'", "auc"]),
        ([*PAIRS, "loss.mlm_weight=0", "evaluation.best=masked_loss"], ["evaluation.best='masked_loss'"]),
        ([*PAIRS, "evaluation.held_out=0", "evaluation.best=auc"], ["evaluation.best='auc'", "no effect"]),
        (
            [*PAIRS, "evaluation.held_out=0", "training.evaluation_steps=2"],
            ["training.evaluation_steps=2", "evaluation.held_out"],
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_named(overrides: list[str], words: list[Any]) -> None:
    with pytest.raises(SettingsError) as error:
        load_chosen(KINDS, overrides=overrides)
    assert all(word in str(error.value) for word in words), error.value


def test_nothing_is_measured_where_nothing_is_held_out() -> None:
    assert load_settings(SentencePairSettings, overrides=[*PAIRS, "evaluation.held_out=0"]).numbers == []


def test_where_a_batch_is_compared_it_is_measured_whether_partners_are_found() -> None:
    settings = load_settings(
        SentencePairSettings, overrides=[*PAIRS, "loss.negatives=batch", "evaluation.best=accuracy"]
    )
    assert settings.loss.temperature == 0.05 and settings.loss.compares_all
    assert "accuracy" in settings.numbers
