"""What the settings of all recipes of the registry have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from graphdoc.errors import SettingsError
from graphdoc.registry import RECIPES, RecipeTargets, load, recipes_of, training_commands
from graphdoc.settings.loading import kinds_of, load_chosen, load_settings
from graphdoc.settings.run import RunSettings
from graphdoc.settings.sub_documents import PretrainingSettings

ROOT = Path(__file__).parents[2]


class Unnamed(PretrainingSettings):
    """Settings that have the name of another recipe."""


class Named(PretrainingSettings):
    """Settings that have a name of their own."""

    recipe: Literal["own"] = "own"  # type: ignore[assignment]
    """own"""


class Bare(RunSettings):
    """Settings without a name."""

    purpose, examples, next_command = "train a model", "examples:\n", "encode"


class Silent(RunSettings):
    """Settings that do not say what they are for."""


@pytest.fixture
def add_recipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, type[Any]], None]:
    """Adds a recipe with settings: ``add_recipe("pretrain own", Named)``."""

    def add(words: str, kind: type[Any]) -> None:
        monkeypatch.setitem(RECIPES, words, RecipeTargets(f"{__name__}:{kind.__name__}", "unused:unused"))

    return add


@pytest.mark.parametrize("command", training_commands())
def test_settings_say_the_name_of_their_recipe(command: str) -> None:
    kinds = kinds_of(command)
    assert kinds == [load(recipe.settings) for recipe in recipes_of(command).values()]
    if len(kinds) == 1:
        assert "recipe" not in kinds[0].model_fields
        return
    names = [kind.model_fields["recipe"].default for kind in kinds]
    assert len(set(names)) == len(names)
    page = (ROOT / "docs" / "training-settings.md").read_text(encoding="utf-8")
    (line,) = (
        part for part in page.split("\n\n") if part.startswith(f"`recipe` chooses what `graphdoc {command}` does")
    )
    for name in names:
        assert f"`{name}`" in line
        assert all(name in (kind.model_fields["recipe"].description or "") for kind in kinds)


def test_a_recipe_of_ones_own_is_chosen_by_its_name(add_recipe: Callable[[str, type[Any]], None]) -> None:
    add_recipe("pretrain own", Named)
    kinds = kinds_of("pretrain")
    assert type(load_chosen(kinds, overrides=["corpus.source=a", "recipe=own"])) is Named
    assert type(load_chosen(kinds, overrides=["corpus.source=a"])) is PretrainingSettings


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("pretrain own", Unnamed),
        ("pretrain other", Named),
        ("pretrain own", Bare),
    ],
)
def test_settings_with_another_name_are_refused(
    add_recipe: Callable[[str, type[Any]], None], words: str, kind: type[Any]
) -> None:
    add_recipe(words, kind)
    with pytest.raises(SettingsError, match="recipe: Literal"):
        kinds_of("pretrain")


@pytest.mark.parametrize("setting", ["training.evaluation_steps=5", "corpus.streaming=true"])
def test_what_a_recipe_does_not_have_is_refused(setting: str) -> None:
    given = ["corpus.source=a", "output=runs/own", "training.max_steps=5"]
    assert not load_settings(Bare, overrides=given).is_measured
    with pytest.raises(SettingsError) as caught:
        load_settings(Bare, overrides=[*given, setting])
    assert setting in str(caught.value)


# Queries and pairs have no defaults.
NEEDED = {
    "finetune retrieve": ["queries.source=b"],
    "finetune views": ["pairs.file=b"],
    "finetune subtopics": ["pairs.file=b"],
}


@pytest.mark.parametrize("words", RECIPES)
def test_recipes_without_an_evaluation_say_how_to_get_one(words: str) -> None:
    kind = load(RECIPES[words].settings)
    given = ["corpus.source=a", *NEEDED.get(words, [])]
    for setting in ("evaluation.held_out=0", "validation.share=0"):
        part, name = setting.partition("=")[0].split(".")
        if part in kind.model_fields and name in kind.model_fields[part].annotation.model_fields:
            given.append(setting)
    if load_settings(kind, overrides=given).is_measured:
        # Which documents a classifier is measured on is known once they are read.
        assert words == "finetune classify"
        return
    with pytest.raises(SettingsError) as caught:
        load_settings(kind, overrides=[*given, "training.evaluation_steps=2"])
    assert "training.evaluation_steps=2" in str(caught.value) and kind.evaluation_fix in str(caught.value)
