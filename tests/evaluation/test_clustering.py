from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import EvaluationError
from graphdoc.evaluation import ClusteringEvaluator, LabelledPair, cluster, linear_probe, pair_auc

EncoderFactory = Callable[..., DocumentEncoder]
WORDS = {"rice": "rice steam koji mould grain", "sea": "tide wave marsh wall flood"}


def documents(part: str, count: int) -> list[Document]:
    """Documents of two labels made of different words, in turns."""
    draw = np.random.default_rng(len(part))
    result = []
    for number in range(count):
        label = list(WORDS)[number % 2]
        text = " ".join(draw.choice(WORDS[label].split(), 30))
        result.append(Document.from_text(f"{text}.", id=f"{part}{number}", label=label))
    return result


@pytest.fixture
def encoder(tiny_encoder: EncoderFactory) -> DocumentEncoder:
    return tiny_encoder("bert", readout="mean")


def test_everything_is_measured_on_the_encoders_vectors(encoder: DocumentEncoder) -> None:
    train, test, others = documents("train", 20), documents("test", 8), documents("other", 2)
    pairs = [LabelledPair("train0", "test2", 1), LabelledPair("other0", "test1", 0), LabelledPair("test0", "test2", 1)]
    evaluation = ClusteringEvaluator(train, test, others=others, seeds=[4, 2], probe=True, pairs=pairs)
    vectors = encoder.encode([*train, *test, *others], normalize=True)
    by_id = {document.id: vector for document, vector in zip([*train, *test, *others], vectors, strict=True)}
    labels = [[str(document.label) for document in part] for part in (train, test)]
    expected = cluster(vectors[:20], vectors[20:28], labels[1], 2, [4, 2])
    probe = linear_probe(vectors[:20], labels[0], vectors[20:28], labels[1])
    metrics = evaluation(encoder)
    assert metrics == pytest.approx(
        {
            "nmi": expected.nmi.mean,
            "nmi_std": expected.nmi.std,
            "purity": expected.purity.mean,
            "purity_std": expected.purity.std,
            "probe_accuracy": probe.accuracy,
            "probe_macro_f1": probe.macro_f1,
            "pair_auc": pair_auc([pair.label for pair in pairs], [by_id[pair.a] @ by_id[pair.b] for pair in pairs]),
        }
    )
    plain = ClusteringEvaluator(train, test, seeds=[4, 2])(encoder)
    assert plain == {name: metrics[name] for name in ("nmi", "nmi_std", "purity", "purity_std")}


@pytest.mark.parametrize(
    ("similarity", "normalize", "unit"),
    [("cosine", None, True), ("dot", None, False), ("dot", True, True)],
)
def test_unit_length(tiny_encoder: EncoderFactory, similarity: str, normalize: bool | None, unit: bool) -> None:
    encoder = tiny_encoder("bert", similarity=similarity)
    evaluation = ClusteringEvaluator(documents("train", 4), documents("test", 2), normalize=normalize)
    lengths = np.linalg.norm(evaluation.vectors(encoder).train, axis=1)
    assert np.allclose(lengths, 1, atol=1e-5) is unit


def test_documents_without_one_label_are_left_out(encoder: DocumentEncoder) -> None:
    train, test = documents("train", 6), documents("test", 4)
    unlabelled = [
        replace(documents("none", 1)[0], id=f"none{number}", label=label)
        for number, label in enumerate((None, "", ("a", "b"), ()))
    ]
    single = replace(train[0], id="single", label=("rice",))
    pairs = [LabelledPair("none0", "train1", 1), LabelledPair("none1", "test0", 0)]
    evaluation = ClusteringEvaluator([*unlabelled, *train, single], [*test, unlabelled[0]], pairs=pairs)
    assert evaluation.left_out == {"train": 4, "test": 1}
    assert evaluation.train_labels == (*(document.label for document in train), "rice")
    vectors = evaluation.vectors(encoder)
    assert len(vectors.train) == 7
    assert len(vectors.test) == 4
    first, second = (encoder.encode(document, normalize=True) for document in unlabelled[:2])
    cosines = [first @ vectors.train[1], second @ vectors.test[0]]
    np.testing.assert_allclose(vectors.pairs, cosines, atol=1e-5)


def test_an_id_in_both_parts_means_the_test_document(encoder: DocumentEncoder) -> None:
    train, test = documents("same", 4), [replace(document, id=document.id) for document in documents("same", 6)]
    test[0] = replace(documents("test", 2)[1], id="same0", label="rice")
    pairs = [LabelledPair("same0", "same1", 1), LabelledPair("same0", "same2", 0)]
    vectors = ClusteringEvaluator(train, test, pairs=pairs).vectors(encoder)
    np.testing.assert_allclose(vectors.pairs, vectors.test[0] @ vectors.test[1:3].T, atol=1e-5)


def test_refusals() -> None:
    train, test = documents("train", 6), documents("test", 4)
    one = [replace(document, label="a") for document in train]
    none = [replace(document, label=None) for document in train]
    many = [replace(document, label=f"label {number}") for number, document in enumerate(test)]
    cases = [
        ((none, test), {}, "train .*label"),
        ((train, none), {}, "test .*label"),
        ((one, test), {}, "train .*'a'"),
        ((train, one), {}, "test .*'a'"),
        ((train, test), {"clusters": 7}, "7 clusters of 6"),
        ((train, many), {"probe": True}, r"label 0, label 1, label 2, \.\.\."),
    ]
    for parts, options, message in cases:
        with pytest.raises(EvaluationError, match=message):
            ClusteringEvaluator(*parts, **options)  # type: ignore[arg-type]
