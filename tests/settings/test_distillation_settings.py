from __future__ import annotations

from typing import Any

import pytest

from graphdoc.errors import SettingsError
from graphdoc.settings.distillation import DistillationSettings
from graphdoc.settings.loading import load_chosen, load_settings
from graphdoc.settings.run import RunSettings
from graphdoc.settings.sub_documents import PretrainingSettings

KINDS: list[type[RunSettings]] = [PretrainingSettings, DistillationSettings]
GIVEN = ("corpus.source=papers/", "recipe=distillation", "teacher=vectors/")


def test_the_key_chooses_the_settings() -> None:
    settings = load_chosen(KINDS, overrides=[*GIVEN, "loss.temperature=0.05"])
    assert isinstance(settings, DistillationSettings)
    assert settings.teachers == ["vectors/"]
    assert settings.loss.temperature == 0.05
    assert load_settings(DistillationSettings, overrides=[*GIVEN, "teacher=[a, b]"]).teachers == ["a", "b"]
    assert load_settings(DistillationSettings, overrides=[*GIVEN, "evaluation.held_out=0"]).numbers == []


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (GIVEN[:2], ["teacher"]),
        ([*GIVEN, "teacher=[]"], ["teacher=[]", "graphdoc encode"]),
        ([*GIVEN, "teacher=' '"], ["teacher", "blank"]),
        ([*GIVEN, "split=half"], ["split ", "recipe=sub_documents"]),
        ([*GIVEN, "loss.temperature=0"], ["loss.temperature=0"]),
        ([*GIVEN, "corpus.streaming=true"], ["corpus.streaming=true", "recipe=sub_documents"]),
        ([*GIVEN, "evaluation.best=auc"], ["evaluation.best='auc'", "correlation"]),
        ([*GIVEN, "evaluation.held_out=0", "evaluation.best=spread"], ["evaluation.best='spread'", "no effect"]),
        ([*GIVEN, "evaluation.held_out=0", "training.patience=2"], ["training.patience=2", "evaluation.held_out"]),
        (["corpus.source=papers/", "teacher=a"], ["teacher", "recipe=distillation"]),
    ],
)
def test_what_does_not_go_together_is_named(overrides: list[str], words: list[Any]) -> None:
    with pytest.raises(SettingsError) as error:
        load_chosen(KINDS, overrides=overrides)
    assert all(word in str(error.value) for word in words), error.value
