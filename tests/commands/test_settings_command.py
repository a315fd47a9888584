from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoc.cli import parse
from graphdoc.registry import RECIPES, load
from graphdoc.settings.document import DocumentSettings
from graphdoc.settings.run import RunSettings

CONFIGS = Path(__file__).parents[2] / "configs"


def test_recipes_are_listed(graphdoc: Callable[..., Any]) -> None:
    status, out, err = graphdoc("settings")
    assert (status, err) == (0, "")
    assert all(words in out for words in RECIPES)


def test_every_recipe_names_its_settings_and_its_training() -> None:
    for recipe in RECIPES.values():
        assert issubclass(load(recipe.settings), RunSettings)
        assert callable(load(recipe.train))


@pytest.mark.parametrize("words", RECIPES)
def test_a_schema_explains_every_key(graphdoc: Callable[..., Any], words: str) -> None:
    run = graphdoc("settings", "--schema", words)
    assert run.status == 0, run.err
    schema = json.loads(run.out)
    more = {
        "finetune retrieve": ["queries"],
        **{"finetune views": ["pairs"], "finetune subtopics": ["pairs"]},
    }
    assert schema["required"] == ["corpus", *more.get(words, [])]
    learning_rate = next(
        part["properties"]["learning_rate"]
        for name, part in schema["$defs"].items()
        if name.endswith("TrainingSettings")
    )
    assert learning_rate["exclusiveMinimum"] == 0
    model = next(part for name, part in schema["$defs"].items() if name.endswith("ModelSettings"))
    for part in (schema["$defs"]["LoraSettings"], model):
        assert all("description" in value for value in part["properties"].values())
    offered = model["properties"]["settings"]["properties"]
    assert all("description" in value for value in offered.values())
    # The run gives these, and refuses them in a file.
    assert set(DocumentSettings.model_fields) - set(offered) == {
        *("labels", "multi_label", "classifier_dropout", "classifier_words"),
        *("trained", "views", "subtopics", "centre", "lexical"),
    }
    assert all("description" in value for value in schema["properties"].values())


def test_the_schema_of_all_recipes_is_one(graphdoc: Callable[..., Any]) -> None:
    schema = json.loads(graphdoc("settings", "--schema").out)
    assert len(schema["anyOf"]) == len(RECIPES)


@pytest.mark.parametrize(
    "arguments",
    [
        ["pretrain", "--config", str(CONFIGS / "pretrain" / "own_corpus.yaml"), "--print"],
        ["pretrain", "--config", str(CONFIGS / "pretrain" / "own_corpus.yaml"), "training.lr=1"],
        ["finetune", "compare", "--config", str(CONFIGS / "finetune" / "colde.yaml"), "--print"],
        ["finetune", "classify", "--config", "nowhere.yaml"],
        ["settings", "--schema"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_settings_are_answered_without_torch(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from graphdoc.cli import main\n"
        f"status = main({arguments!r})\n"
        "print(sorted({'torch', 'transformers', 'accelerate', 'datasets'} & set(sys.modules)))\n"
        "sys.exit(status)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode in (0, 2), run.stderr
    assert run.stdout.splitlines()[-1] == "[]"
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("words", ["distill", "distill passages", "finetune retrieve"])
def test_a_recipe_is_a_command(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.setitem(RECIPES, words, RECIPES["finetune classify"])
    options = parse([*words.split(), "--config", "a.yaml", "training.epochs=2", "--resume"])
    assert (options.command, options.config, options.settings) == (words, "a.yaml", ["training.epochs=2"])
    assert options.resume
