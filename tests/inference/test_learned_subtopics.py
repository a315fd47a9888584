"""Subtopics as a model has learned to find them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from graphdoc import DocumentEncoder
from graphdoc.errors import ModelError, SettingsError
from graphdoc.inference.learned_subtopics import AdaptiveSubtopics, subtopic_finder
from graphdoc.settings.document import ClusteringSettings
from graphdoc.subtopics.subtopics import vector_similarity

RICE = ["Koji grows on rice.", "Rice is steamed first.", "The mould makes malt.", "Barley makes malt as well."]
TIDES = ["The sea floods the marsh.", "A dike holds the tide.", "A storm closes the sluice."]


@pytest.fixture
def encoder(backbone_folder: Callable[[str], Path]) -> DocumentEncoder:
    """An encoder whose head for subtopics is drawn, and so far from even."""
    made = DocumentEncoder.from_backbone(
        backbone_folder("bert"),
        device="cpu",
        pooling="mean",
        projection_size=None,
        graph_layers=1,
        readout="initial_mean",
        unit="sentence",
        skip="identity",
    )
    torch.manual_seed(0)
    head = made.model.add_subtopic_head(ClusteringSettings(columns=4, neighbours=3))
    with torch.no_grad():
        head.linear.weight.mul_(30)
    return made


@pytest.fixture
def finder(encoder: DocumentEncoder) -> AdaptiveSubtopics:
    return AdaptiveSubtopics(encoder)


def test_a_sentence_is_in_the_subtopic_that_it_belongs_to_most(finder: AdaptiveSubtopics) -> None:
    first, second = finder.features(RICE), finder.features(TIDES)
    assigned = finder.assignments(first, second, cluster_size=2)
    assert assigned.shape == (7, 4)
    np.testing.assert_allclose(assigned.sum(1), 1, rtol=1e-6)
    found = finder.find(first, second, cluster_size=2)
    assert found.first == 4
    largest = assigned.argmax(1)
    same = largest[:, None] == largest
    np.testing.assert_array_equal(found.clusters[:, None] == found.clusters, same)
    # Numbered by their first sentence; those without sentences are dropped.
    assert sorted(set(found.clusters.tolist())) == list(range(found.number))
    np.testing.assert_array_equal(
        finder.similarity(first, second), vector_similarity(np.concatenate([first, second]), 3)
    )


def test_features_are_the_vectors_that_training_reads(finder: AdaptiveSubtopics, encoder: DocumentEncoder) -> None:
    (segmented,) = encoder.with_passage_vectors([" ".join(RICE)])
    assert [segmented.text(span) for span in segmented.passages] == RICE
    np.testing.assert_allclose(finder.features(RICE), segmented.passage_vectors, atol=1e-5)


def test_the_pair_in_the_other_order_has_the_same_subtopics(finder: AdaptiveSubtopics) -> None:
    first, second = finder.features(RICE), finder.features(TIDES)
    for size in (2, 3, 6):
        found = finder.find(first, second, cluster_size=size)
        turned = finder.find(second, first, cluster_size=size).turned()
        np.testing.assert_array_equal(found.clusters, turned.clusters)


@pytest.mark.parametrize("texts", [([], []), (RICE[:1], TIDES[:1]), (RICE, [])])
def test_few_sentences_and_one_document_alone(finder: AdaptiveSubtopics, texts: tuple[list[str], list[str]]) -> None:
    found = finder.find(*map(finder.features, texts))
    assert (len(found.clusters), found.first) == (len(texts[0]) + len(texts[1]), len(texts[0]))
    # Sentences that are like no other are put somewhere.
    assert len(finder.find(np.zeros((3, 24), np.float32), np.eye(24, dtype=np.float32)[:5]).clusters) == 8


def test_more_subtopics_than_columns_are_capped_and_said(
    finder: AdaptiveSubtopics, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = finder.features(RICE), finder.features(TIDES)
    with caplog.at_level(logging.WARNING):
        assert finder.assignments(first, second, cluster_size=2).shape[1] == 4
        assert not caplog.records
        assert finder.assignments(first, second, cluster_size=1).shape[1] == 4
        finder.find(first, second, cluster_size=1)
    (record,) = caplog.records
    assert {7, 4} <= set(record.args)  # type: ignore[arg-type]


def test_it_is_chosen_by_name_and_needs_a_model_that_has_learned_it(
    encoder: DocumentEncoder, mini: DocumentEncoder, tmp_path: Path
) -> None:
    folder = encoder.save_pretrained(tmp_path / "model")
    loaded = subtopic_finder("adaptive", "en", folder)
    assert isinstance(loaded, AdaptiveSubtopics)
    own = AdaptiveSubtopics(encoder)
    first, second = own.features(RICE), own.features(TIDES)
    np.testing.assert_allclose(
        loaded.assignments(loaded.features(RICE), loaded.features(TIDES)), own.assignments(first, second), atol=1e-6
    )
    with pytest.raises(SettingsError, match="subtopic_model"):
        subtopic_finder("adaptive", "en")
    with pytest.raises(SettingsError, match="'topics'"):
        subtopic_finder("topics", "en")
    for work in (lambda: subtopic_finder("adaptive", "en", tmp_path / "nowhere"), lambda: AdaptiveSubtopics(mini)):
        with pytest.raises(ModelError):
            work()


def test_other_training_leaves_the_head_alone_or_takes_it_away(encoder: DocumentEncoder) -> None:
    from graphdoc.training.optimizer import prepare_tuning

    prepare_tuning(encoder.model, "full")
    assert not any(weight.requires_grad for weight in encoder.model.subtopic_head.parameters())
    prepare_tuning(encoder.model, "frozen", subtopics=True)
    trained = {name.partition(".")[0] for name, weight in encoder.model.named_parameters() if weight.requires_grad}
    assert trained == {"graph", "subtopic_head"}
    encoder.model.remove_head(subtopics=False)
    assert encoder.model.subtopic_head is not None
    encoder.model.remove_head()
    assert encoder.model.subtopic_head is None
    assert encoder.model.config.subtopics is None
