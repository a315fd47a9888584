from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from graphdoc.modeling import DocumentConfig
from graphdoc.sampling import DocumentSections
from graphdoc.settings.compare import ComparisonSettings, GroupSettings, SectionSettings
from graphdoc.settings.loading import as_values, load_settings

RECIPES = Path(__file__).parents[2] / "configs" / "finetune"


@pytest.mark.parametrize("name", ["colde", "graph_compare", "own_pairs"])
def test_recipes_are_valid_and_survive_being_written(name: str, tmp_path: Path) -> None:
    settings = load_settings(ComparisonSettings, RECIPES / f"{name}.yaml")
    written = tmp_path / "written.yaml"
    written.write_text(yaml.safe_dump(as_values(settings)), encoding="utf-8")
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
        ("sections.number=1", "groups.smallest=2"),
        ("model.settings.section_aggregation=mean", "model.settings.chunk_attention_heads=0"),
        ("loss.kind=cosine", "groups.by=pairs", "groups.file=pairs_train.tsv"),
        ("sections.number=5", "training.batch_size=200", "sections.most_tokens=1000"),
        ("sections.section_positions=shuffled",),
    ],
)
def test_ablations_are_single_settings(changes: tuple[str, ...]) -> None:
    path = RECIPES / "colde.yaml"
    assert load_settings(ComparisonSettings, path, changes) != load_settings(ComparisonSettings, path)
    # The head of the file names them.
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
    assert SectionSettings(3, "length", "shuffled").sections(7) == DocumentSections(3, "length", "shuffled", 7)
    assert [GroupSettings(by, "x.tsv").what_of_unknown for by in ("pairs", "links")] == ["stop", "leave_out"]
    assert GroupSettings("links", "x.tsv", unknown="stop").what_of_unknown == "stop"
