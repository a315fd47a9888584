from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from graphdoc.errors import SettingsError
from graphdoc.modeling import DocumentConfig
from graphdoc.settings.loading import load_settings
from graphdoc.settings.retrieve import RetrievalSettings

RECIPES = Path(__file__).parents[2] / "configs" / "finetune"
NAMES = ("robust04", "msmarco_doc", "wikir_title", "wikir_first_sentence", "own_queries")
GIVEN = ("corpus.source=papers", "queries.source=judged")
MADE = ("corpus.source=papers", "queries.made_from=[titles]")


def load(*changes: str) -> RetrievalSettings:
    return load_settings(RetrievalSettings, overrides=changes)


@pytest.mark.parametrize("name", NAMES)
def test_recipes_are_valid_and_survive_being_written(name: str, tmp_path: Path) -> None:
    settings = load_settings(RetrievalSettings, RECIPES / f"{name}.yaml")
    written = tmp_path / "written.yaml"
    written.write_text(yaml.safe_dump(settings.as_values()), encoding="utf-8")
    assert load_settings(RetrievalSettings, written) == settings
    DocumentConfig(**settings.model.settings)  # type: ignore[arg-type]


def test_the_papers_are_recipes() -> None:
    """Graph-RoBERTa, section 3.3."""
    robust, msmarco, *wikir = (load_settings(RetrievalSettings, RECIPES / f"{name}.yaml") for name in NAMES[:4])
    assert (robust.negatives.per_query, robust.negatives.kind, robust.folds.number) == (8, "judged", 5)
    assert (robust.training.batch_size, robust.training.epochs) == (32, 10)
    assert (msmarco.training.batch_size, msmarco.training.epochs, msmarco.negatives.refresh) == (128, 10, 0.5)
    assert msmarco.validation.most_queries == 100
    assert {one.queries.text_column for one in wikir} == {"title", "first_sentence"}
    for one in wikir:
        assert (one.training.batch_size, one.training.epochs, one.training.learning_rate) == (128, 5, 2e-5)
    for one in (msmarco, *wikir):
        negatives = one.negatives
        assert (negatives.per_query, negatives.kind, negatives.lists, negatives.depth) == (1, "lists", "words", 100)
    for one in (robust, msmarco, *wikir):
        assert (one.loss.similarity, one.loss.temperature, one.similarity) == ("dot", 1.0, "dot")
        assert (one.training.optimizer, one.training.warmup, one.model.tune) == ("adam", 0.1, "full")


def test_first_sentences_that_are_queries_leave_their_documents() -> None:
    assert not load(*MADE).corpus.leave_out_first_sentence
    both = (MADE[0], "queries.made_from=[titles,first_sentences]")
    assert load(*both).corpus.leave_out_first_sentence
    assert not load(*both, "corpus.leave_out_first_sentence=false").corpus.leave_out_first_sentence
    direct = RetrievalSettings(corpus={"source": "papers"}, queries={"made_from": ["first_sentences"]})
    assert direct.corpus.leave_out_first_sentence


@pytest.mark.parametrize(
    ("changes", "value", "fix"),
    [
        ([GIVEN[0]], "queries.source=null", "queries.made_from"),
        ([*GIVEN, MADE[1]], "queries.source='judged'", "queries.made_from"),
        ([*MADE, "queries.split=train"], "queries.split='train'", "leave it out"),
        ([*MADE, "queries.own_grade=2"], "queries.own_grade=2", "leave it out"),
        ([*GIVEN, "queries.most_documents=2"], "queries.most_documents=2", "queries.made_from"),
        ([*GIVEN, "queries.made_from=[text]"], "queries.made_from", "titles"),
        ([*GIVEN, "negatives.kind=judged"], "negatives.kind='judged'", "negatives.per_query=1"),
        ([*GIVEN, "negatives.kind=lists", "negatives.per_query=1"], "negatives.lists=null", "words, vectors, both"),
        ([*GIVEN, "negatives.lists=words"], "negatives.lists='words'", "negatives.kind=lists"),
        ([*GIVEN, "negatives.refresh=0.5"], "negatives.refresh=0.5", "negatives.kind=lists"),
        ([*GIVEN, "negatives.depth=5"], "negatives.depth=5", "leave it out"),
        ([*MADE, "negatives.per_query=2", "negatives.kind=judged"], "negatives.kind='judged'", "random"),
        ([*MADE, "validation.split=dev"], "validation.split='dev'", "validation.source"),
        ([*GIVEN, "validation.share=0", "validation.most_queries=9"], "validation.most_queries=9", "leave it out"),
        (
            [*GIVEN, "validation.share=0", "training.evaluation_steps=2"],
            "training.evaluation_steps=2",
            "validation.share",
        ),
        ([*GIVEN, "folds.fold=1"], "folds.fold=1", "folds.number"),
        ([*GIVEN, "folds.number=5"], "folds.fold=null", "1 to 5"),
        ([*GIVEN, "folds.number=5", "folds.fold=6"], "folds.fold=6", "folds.number=5"),
        ([*GIVEN, "folds.number=5", "folds.fold=1", "folds.file=x", "folds.seed=3"], "folds.seed=3", "folds.file"),
        ([*GIVEN, "loss.temperature=0"], "loss.temperature=0", "at least 0.0001"),
        ([*GIVEN, "training.batch_size=1"], "training.batch_size=1", "at least 2"),
        ([*GIVEN, "corpus.streaming=true"], "corpus.streaming=true", "false"),
    ],
)
def test_settings_that_do_not_go_together_are_named(changes: list[str], value: str, fix: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(*changes)
    assert value in str(caught.value)
    assert fix in str(caught.value)
