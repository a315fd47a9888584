from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from graphdoc.errors import SettingsError
from graphdoc.modeling import DocumentConfig
from graphdoc.settings.compare import ComparisonSettings, GroupSettings
from graphdoc.settings.loading import load_settings

RECIPES = Path(__file__).parents[2] / "configs" / "finetune"


@pytest.mark.parametrize("name", ["colde", "graph_compare", "own_pairs"])
def test_recipes_are_valid_and_survive_being_written(name: str, tmp_path: Path) -> None:
    settings = load_settings(ComparisonSettings, RECIPES / f"{name}.yaml")
    written = tmp_path / "written.yaml"
    written.write_text(yaml.safe_dump(settings.as_values()), encoding="utf-8")
    assert load_settings(ComparisonSettings, written) == settings
    assert DocumentConfig(**settings.model.settings).readout == "sections"  # type: ignore[arg-type]


def test_the_paper_is_a_recipe() -> None:
    """CoLDE, sections 3 and 4.1.2."""
    settings = load_settings(ComparisonSettings, RECIPES / "colde.yaml")
    assert (settings.sections.number, settings.loss.kind, settings.loss.temperature) == (2, "contrastive", 0.5)
    assert (settings.model.start, settings.model.tune) == ("bert-base-uncased", "full")
    training = settings.training
    assert (training.batch_size, training.epochs, training.learning_rate) == (50, 25, 5e-5)
    assert (training.optimizer, training.weight_decay) == ("adamw", 0.01)
    config = DocumentConfig(**settings.model.settings)  # type: ignore[arg-type]
    assert (config.unit, config.passage_tokens, config.pooling) == ("chunk", 512, "cls")
    assert (config.structural_embeddings, config.projection_size, config.graph_layers) == (True, None, 0)
    assert (config.chunk_attention_heads, config.section_aggregation) == (4, "lstm")
    assert (2 * config.section_lstm_size, config.section_projection_size) == (512, 256)
    assert settings.corpus.leave_out_sections == ["Abstract"]


@pytest.mark.parametrize(
    "changes",
    [
        ("sections.number=1", "model.settings.structural_embeddings=false"),
        ("model.settings.section_aggregation=mean", "model.settings.chunk_attention_heads=0"),
        (
            *(
                "loss.kind=cosine",
                "groups.by=pairs",
                "groups.file=pairs_train.tsv",
                "groups.joining=components",
                "groups.smallest=null",
                "sections.number=1",
            ),
            "model.settings.structural_embeddings=false",
        ),
        ("sections.number=5", "training.batch_size=200", "sections.most_tokens=1000"),
        ("sections.section_positions=shuffled",),
    ],
)
def test_ablations_of_the_paper_are_a_few_settings(changes: tuple[str, ...]) -> None:
    path = RECIPES / "colde.yaml"
    assert load_settings(ComparisonSettings, path, changes) != load_settings(ComparisonSettings, path)
    # The head of the file names them, as section 4.5 has them.
    head = path.read_text(encoding="utf-8")
    assert all(change.split("=")[0] in head for change in changes)


def test_what_follows_from_other_settings() -> None:
    corpus = {"corpus.source": "papers"}
    sections = {1: 2, 2: 1, 5: 1}
    for number, smallest in sections.items():
        changes = [*(f"{key}={value}" for key, value in corpus.items()), f"sections.number={number}"]
        assert load_settings(ComparisonSettings, overrides=changes).smallest_group == smallest
        changes.append("groups.smallest=2")
        assert load_settings(ComparisonSettings, overrides=changes).smallest_group == 2
    assert [GroupSettings(by=by, file="x.tsv").on_unknown for by in ("pairs", "links")] == ["stop", "leave_out"]
    assert GroupSettings(by="links", file="x.tsv", unknown="stop").on_unknown == "stop"


PAIRS = ("groups.by=pairs", "groups.file=x.tsv")


def test_defaults_that_have_no_effect_may_be_written_down() -> None:
    written = [f"groups.{key}" for key in ("joining=components", "smallest=null")]
    changes = ["corpus.source=papers", "loss.temperature=0.5", *written]
    for others in (("loss.kind=cosine", *PAIRS), ("groups.by=label",)):
        given = load_settings(ComparisonSettings, overrides=[*changes, *others])
        assert (
            given.as_values()
            == load_settings(ComparisonSettings, overrides=["corpus.source=papers", *others]).as_values()
        )


@pytest.mark.parametrize(
    ("changes", "value", "fix"),
    [
        (["loss.margin=0.2"], "loss.margin=0.2", "loss.kind=cosine"),
        (["loss.kind=cosine"], "loss.kind='cosine'", "groups.by=pairs"),
        (["loss.kind=cosine", *PAIRS, "loss.temperature=0.1"], "loss.temperature=0.1", "loss.temperature=0.5"),
        (["loss.kind=cosine", *PAIRS, "groups.smallest=2"], "groups.smallest=2", "groups.smallest=null"),
        (["loss.kind=cosine", *PAIRS, "groups.joining=stars"], "groups.joining='stars'", "groups.joining=components"),
        (["groups.joining=stars"], "groups.joining='stars'", "groups.joining=components"),
        (["groups.unknown=leave_out"], "groups.unknown='leave_out'", "groups.unknown=null"),
        (["groups.file=x.tsv"], "groups.file='x.tsv'", "groups.by=pairs or links"),
        (["groups.by=links"], "groups.by='links'", "groups.file"),
        (["groups.most=3"], "groups.most=3", "groups.joining=stars"),
        ([*PAIRS, "groups.joining=stars", "groups.most=1"], "groups.most=1", "at least 2"),
        (["groups.smallest=3"], "groups.smallest=3", "1, 2 or null"),
        (["groups.smallest=1", "sections.number=1"], "groups.smallest=1", "sections.number"),
        (["sections.number=1", "sections.by=length"], "sections.by='length'", "sections.number=2"),
        (["loss.temperature=0"], "loss.temperature=0", "at least 0.0001"),
        (["loss.margin=1"], "loss.margin=1", "below 1"),
        (["sections.number=0"], "sections.number=0", "at least 1"),
        (["training.batch_size=1"], "training.batch_size=1", "at least 2"),
        (["validation.source=x"], "validation.source='x'", "validation.pairs"),
        (["training.evaluation_steps=2"], "training.evaluation_steps=2", "validation.pairs"),
        (["corpus.streaming=true"], "corpus.streaming=true", "false"),
        (["model.result_readout=mean"], "model.result_readout='mean'", "model.settings.readout"),
    ],
)
def test_settings_that_do_not_go_together_are_named(changes: list[str], value: str, fix: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(ComparisonSettings, overrides=["corpus.source=papers", *changes])
    assert value in str(caught.value)
    assert fix in str(caught.value)
