from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, EvaluationError, ModelError, SettingsError
from graphdoc.evaluation import LabelledPair
from graphdoc.evaluation.faithfulness.removal_curves import KINDS, areas, counts
from graphdoc.evaluation.faithfulness.scores import FaithfulnessScores
from graphdoc.evaluation.faithfulness.study import FaithfulnessEvaluation
from graphdoc.modeling import DocumentModel
from graphdoc.prediction import predict
from graphdoc.segmentation.spans import Coverage, SegmentedDocument

EncoderFactory = Callable[..., DocumentEncoder]
LABELS = ["rice", "sea", "clocks"]
PAIRS = [LabelledPair("first", "second", 1), LabelledPair("second", "third", 0)]
STEPS = 4


@pytest.fixture
def classifier(tiny_encoder: EncoderFactory) -> EncoderFactory:
    """Makes an encoder with a head whose classes are far apart: ``classifier(multi_label=True)``."""

    def make(**settings: object) -> DocumentEncoder:
        encoder = tiny_encoder("bert", **{"labels": LABELS, **settings})
        assert encoder.model.head is not None
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(2)
            for weight in encoder.model.head.parameters():
                weight.normal_(std=0.4)
        return encoder

    return make


def part_of(segmented: SegmentedDocument, rows: list[int]) -> SegmentedDocument:
    return replace(
        segmented,
        passages=tuple(segmented.passages[row] for row in sorted(rows)),
        token_ids=tuple(segmented.token_ids[row] for row in sorted(rows)),
    )


def plain_curves(segmented: SegmentedDocument, scores: Any, value: Callable[[SegmentedDocument], float]) -> np.ndarray:
    """Deletion and insertion by cutting the document and encoding what is left, ``(2, steps + 1)``."""
    order = sorted(range(len(scores)), key=lambda row: -scores[row])
    result = []
    for kind in KINDS:
        points = counts(len(order), STEPS)
        kept = [order[count:] if kind == "deletion" else order[: count + 1] for count in points.tolist()]
        values = [value(part_of(segmented, rows)) for rows in kept]
        result.append(np.interp(np.linspace(0, 1, STEPS + 1), points / (len(order) - 1), values))
    return np.array(result)


@pytest.mark.parametrize(
    "settings",
    [
        {"graph_kind": "section", "readout": "attention"},
        {"graph_kind": "hierarchical", "readout": "document_node", "similarity": "dot"},
        {"readout": "sections", "graph_layers": 0, "chunk_attention_heads": 2, "section_lstm_size": 6},
    ],
    ids=["attention", "document node", "sections"],
)
def test_curves_of_similarity_are_those_of_documents_that_are_cut(
    tiny_encoder: EncoderFactory, structured: list[Document], settings: dict[str, Any]
) -> None:
    encoder = tiny_encoder("bert", **settings)
    scores = FaithfulnessEvaluation(structured, PAIRS, steps=STEPS, resamples=20).measure(encoder)

    assert [(case.document, case.other) for case in scores.cases] == [
        ("first", "second"),
        ("second", "first"),
        ("second", "third"),
    ]
    assert scores.methods == ("contribution", "attention", "words", "random")
    assert scores.left_out == {"unknown": 0, "with_themselves": 0, "repeated": 0, "one_passage": 1}
    for number, case in enumerate(scores.cases):
        a, b = (next(one for one in structured if one.id == id) for id in (case.document, case.other))
        comparison = encoder.compare(a, b)
        other = encoder.encode(b).astype(np.float64)

        def value(part: SegmentedDocument, other: np.ndarray = other) -> float:
            (found,) = encoder.stream([part])
            vector = found[1][0].double().numpy()
            product = float(vector @ other)
            return (
                product
                if settings.get("similarity") == "dot"
                else product / float(np.linalg.norm(vector) * np.linalg.norm(other))
            )

        segmented = encoder.segment(a)
        assert case.passages == len(segmented.passages) > 2
        assert case.value == pytest.approx(comparison.document, abs=1e-4)
        contributions = comparison.passage_contributions.sum(axis=1)
        np.testing.assert_allclose(scores.curves[number, 0], plain_curves(segmented, contributions, value), atol=1e-4)
        if comparison.attention_to_a is not None:
            looks = comparison.attention_to_a.mean(axis=(0, 1))
        elif settings["readout"] == "attention":
            looks = comparison.a.weights
        else:
            continue
        np.testing.assert_allclose(scores.curves[number, 1], plain_curves(segmented, looks, value), atol=1e-4)


@pytest.mark.parametrize("multi_label", [False, True])
def test_curves_of_classes_are_those_of_documents_that_are_cut(
    classifier: EncoderFactory, structured: list[Document], multi_label: bool
) -> None:
    encoder = classifier(graph_kind="section", readout="document_node", multi_label=multi_label)
    scores = FaithfulnessEvaluation(structured, steps=STEPS, resamples=20).measure(encoder)
    predictions = predict(encoder, structured[:2], threshold=0.99 if multi_label else None)
    assert [case.document for case in scores.cases] == ["first", "second"]
    assert (scores.watched, scores.left_out) == ("probability", {"one_passage": 1})
    for number, (case, prediction) in enumerate(zip(scores.cases, predictions, strict=True)):
        assert case.other == LABELS[int(prediction.logits.argmax())]
        assert case.value == pytest.approx(prediction.probability_of(case.other), abs=1e-5)

        def value(part: SegmentedDocument, label: str = case.other) -> float:
            return predict(encoder, [part], explain=False)[0].probability_of(label)

        segmented = encoder.segment(structured[number])
        decision = next(one for one in prediction.decisions if one.label == case.other)
        expected = plain_curves(segmented, decision.contributions, value)
        np.testing.assert_allclose(scores.curves[number, 0], expected, atol=1e-4)
    assert np.ptp(scores.curves) > 0.05


def test_where_the_model_is_a_sum_no_order_beats_contributions(
    tiny_encoder: EncoderFactory, classifier: EncoderFactory, structured: list[Document]
) -> None:
    """A mean of the contributions that are left is least without the greatest, whichever others went."""
    similarity = tiny_encoder("bert", readout="mean", graph_layers=0, similarity="dot")
    classes = classifier(readout="mean", graph_layers=0, multi_label=True)
    for encoder, pairs in ((similarity, PAIRS), (classes, None)):
        scores = FaithfulnessEvaluation(structured, pairs, steps=20, orders=8, resamples=200).measure(encoder)
        assert scores.methods == ("contribution", "words", "random")
        assert scores.notes[0] == "attention is not measured: the model has none that differs between passages"
        deletion, insertion = scores.curves[:, :, 0], scores.curves[:, :, 1]
        assert (deletion[:, :1] <= deletion[:, 1:] + 1e-6).all()
        assert (insertion[:, :1] >= insertion[:, 1:] - 1e-6).all()
        for kind in KINDS:
            ahead = scores.ahead("contribution", kind)
            assert ahead.value > 1e-4
            assert ahead.interval is not None and ahead.interval[0] > 0


def test_each_document_goes_through_the_transformer_once(
    tiny_encoder: EncoderFactory, structured: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tiny_encoder("bert")
    seen = []
    encode = DocumentModel.encode_passages

    def counted(self: DocumentModel, batch: Any, *arguments: Any) -> Any:
        seen.append(len(batch.token_ids))
        return encode(self, batch, *arguments)

    monkeypatch.setattr(DocumentModel, "encode_passages", counted)
    totals = Coverage()
    FaithfulnessEvaluation(structured, PAIRS, steps=STEPS).measure(encoder, totals=totals)
    assert seen == [sum(len(encoder.segment(one).passages) for one in structured)]
    assert totals.to_dict()["documents"] == 3


def test_results_depend_on_the_seed_alone(tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
    encoder = tiny_encoder("bert", graph_kind="section")

    def measure(documents: list[Document], pairs: list[LabelledPair], seed: int = 3) -> FaithfulnessScores:
        return FaithfulnessEvaluation(documents, pairs, steps=STEPS, seed=seed, resamples=30).measure(encoder)

    scores, again = measure(structured, PAIRS), measure(structured, PAIRS)
    assert scores.to_dict() == again.to_dict()
    # What is measured of a pair depends on no other pair.
    alone = measure(structured[::-1], PAIRS[:1])
    np.testing.assert_allclose(alone.curves[:, :2], scores.curves[:2, :2], atol=1e-6)
    np.testing.assert_allclose(alone.curves[:, -1], scores.curves[:2, -1], atol=1e-6)
    other = measure(structured, PAIRS, seed=4)
    np.testing.assert_array_equal(other.curves[:, 0], scores.curves[:, 0])
    assert np.abs(other.curves[:, -1] - scores.curves[:, -1]).max() > 1e-4


def test_random_is_the_mean_over_orders(tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
    encoder = tiny_encoder("bert")
    spread = []
    for orders in (1, 30):
        curves = [
            FaithfulnessEvaluation(structured, PAIRS[:1], orders=orders, seed=seed, resamples=0).measure(encoder)
            for seed in range(4)
        ]
        spread.append(np.std([areas(one.curves[:, -1]) for one in curves], axis=0).mean())
    assert spread[1] < spread[0] / 2


def test_pairs_that_are_not_measured_are_counted(tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
    pairs = [
        *PAIRS[:1],
        LabelledPair("second", "first", 1),
        LabelledPair("first", "first", 1),
        LabelledPair("first", "gone", 0),
    ]
    with pytest.raises(DocumentError, match=r"pair 4: .*'gone'"):
        FaithfulnessEvaluation(structured, pairs)
    evaluation = FaithfulnessEvaluation(structured, pairs, unknown="leave_out", steps=STEPS)
    assert list(evaluation.pairs or ()) == PAIRS[:1]
    assert [one.id for one in evaluation.documents] == ["first", "second"]  # type: ignore[union-attr]
    assert evaluation.measure(tiny_encoder()).left_out == {
        "unknown": 1,
        "with_themselves": 1,
        "repeated": 1,
        "one_passage": 0,
    }
    with pytest.raises(EvaluationError, match="no pair"):
        FaithfulnessEvaluation(structured, pairs[2:], unknown="leave_out")


def test_a_sample_is_measured(structured: list[Document]) -> None:
    pairs = [*PAIRS, LabelledPair("first", "third", 0)]
    drawn = [FaithfulnessEvaluation(structured, pairs, sample=2, seed=seed).pairs for seed in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len({one.pairs for one in drawn if one}) > 1
    assert all(one is not None and len(one) == 2 for one in drawn)
    assert len(FaithfulnessEvaluation(structured, sample=2).documents) == 2
    assert len(FaithfulnessEvaluation(structured, sample=9).documents) == 3


def test_what_cannot_be_measured_is_refused(tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
    encoder = tiny_encoder()
    with pytest.raises(ModelError, match=r"classification head.* pairs"):
        FaithfulnessEvaluation(structured).measure(encoder)
    with pytest.raises(EvaluationError, match="two passages"):
        FaithfulnessEvaluation(structured, PAIRS).measure(tiny_encoder(max_passages=1))
    with pytest.raises(EvaluationError, match="no documents"):
        FaithfulnessEvaluation([])
    for name in ("steps", "orders", "sample"):
        with pytest.raises(SettingsError, match=f"{name}=0 .*1"):
            FaithfulnessEvaluation(structured, PAIRS, **{name: 0})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"resamples=-1 .*0"):
        FaithfulnessEvaluation(structured, PAIRS, resamples=-1)


def test_places_are_kept_with_structural_embeddings(tiny_encoder: EncoderFactory, structured: list[Document]) -> None:
    encoder = tiny_encoder(
        readout="sections", structural_embeddings=True, chunk_attention_heads=2, section_lstm_size=6
    )
    scores = FaithfulnessEvaluation(structured, PAIRS, steps=STEPS, resamples=0).measure(encoder)
    assert scores.notes[0].startswith("attention: chunkwise attention")
    assert scores.notes[1].startswith("structural embeddings: passages keep the places")
    assert scores.samples is None


def test_documents_are_told_apart_by_their_ids(structured: list[Document]) -> None:
    twice = [*structured, replace(structured[1], id=structured[0].id)]
    for pairs in (None, PAIRS):
        with pytest.raises(DocumentError, match="'first'"):
            FaithfulnessEvaluation(twice, pairs)
    with pytest.raises(SettingsError, match=r"unknown='foo'.*stop, leave_out"):
        FaithfulnessEvaluation(structured, PAIRS, unknown="foo")  # type: ignore[arg-type]
