from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation import ClusteringEvaluator, cluster, linear_probe

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
    train, test = documents("train", 20), documents("test", 8)
    evaluation = ClusteringEvaluator(train, test, seeds=[4, 2], probe=True)
    vectors = encoder.encode([*train, *test], normalize=True)
    labels = [[str(document.label) for document in part] for part in (train, test)]
    expected = cluster(vectors[:20], vectors[20:28], labels[1], 2, [4, 2])
    probe = linear_probe(vectors[:20], labels[0], vectors[20:28], labels[1])
    metrics = evaluation(encoder)
    assert metrics == pytest.approx(
        {
            **expected.metrics(),
            "probe_accuracy": probe.accuracy,
            "probe_macro_f1": probe.macro_f1,
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
    lengths = np.linalg.norm(evaluation.vectors(encoder)[0], axis=1)
    assert np.allclose(lengths, 1, atol=1e-5) is unit


def test_documents_without_one_label_are_left_out(encoder: DocumentEncoder) -> None:
    train, test = documents("train", 6), documents("test", 4)
    unlabelled = [
        replace(documents("none", 1)[0], id=f"none{number}", label=label)
        for number, label in enumerate((None, "", ("a", "b"), ()))
    ]
    single = replace(train[0], id="single", label=("rice",))
    evaluation = ClusteringEvaluator([*unlabelled, *train, single], [*test, unlabelled[0]])
    assert evaluation.left_out == {"train": 4, "test": 1}
    assert evaluation.train_labels == [*(document.label for document in train), "rice"]
    assert [len(part) for part in evaluation.vectors(encoder)] == [7, 4]
