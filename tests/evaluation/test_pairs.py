from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.documents.readers.pair_files import Pairs
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, EvaluationError
from graphdoc.evaluation import (
    LabelledPair,
    PairEvaluator,
    best_threshold,
    pair_auc,
    read_pair_file,
)
from graphdoc.evaluation.pair_scores import METRICS
from graphdoc.evaluation.pairs import documents_of_pairs

EncoderFactory = Callable[..., DocumentEncoder]
WORDS = {"rice": "rice steam koji mould grain", "sea": "tide wave marsh wall flood"}


def document(id: str, topic: str, words: int, seed: int = 0) -> Document:
    return Document.from_text(" ".join(np.random.default_rng(seed).choice(WORDS[topic].split(), words)), id=id)


@pytest.fixture
def documents() -> list[Document]:
    """Ten documents of two topics and of 8 to 80 words."""
    return [document(f"{topic}{n}", topic, 8 * (n + 1) * (1 + (n > 3)), n) for topic in WORDS for n in range(5)]


def all_pairs(documents: list[Document]) -> list[LabelledPair]:
    return [
        LabelledPair(a.id, b.id, int(a.id[:3] == b.id[:3]))
        for n, a in enumerate(documents)
        for b in documents[n + 1 :]
    ]


def test_an_encoder_is_measured_by_the_cosine_of_its_documents(
    tiny_encoder: EncoderFactory, documents: list[Document]
) -> None:
    encoder = tiny_encoder("bert", similarity="dot")
    pairs = all_pairs(documents)
    comparison = PairEvaluator([*documents, document("other", "sea", 9)], pairs, resamples=50)
    vectors = dict(zip((one.id for one in documents), encoder.encode(documents), strict=True))
    cosines = [float(np.dot(vectors[p.a], vectors[p.b]) / np.linalg.norm(vectors[p.a]) / np.linalg.norm(vectors[p.b]))
               for p in pairs]  # fmt: skip

    similarities = comparison.similarities(encoder)
    scores = comparison.score(similarities)

    np.testing.assert_allclose(similarities, cosines, atol=1e-5)
    assert [one.id for one in comparison.documents] == [one.id for one in documents]  # type: ignore[union-attr]
    assert scores.test.values["auc"] == pytest.approx(pair_auc([p.label for p in pairs], cosines))
    assert scores.test.threshold == pytest.approx(best_threshold([p.label for p in pairs], cosines), abs=1e-5)
    assert scores.validation is None
    assert scores.test.estimates["auc"].interval is not None
    measured = comparison(encoder)
    assert measured == {f"pair_{name}": scores.test.values[name] for name in METRICS}


def test_the_threshold_is_chosen_on_the_validation_pairs(documents: list[Document]) -> None:
    pairs = [LabelledPair("rice0", "rice1", 1), LabelledPair("rice0", "sea0", 0), LabelledPair("sea0", "sea1", 1)]
    validation = [
        LabelledPair("rice2", "rice3", 1),
        LabelledPair("rice2", "sea3", 0),
        LabelledPair("rice2", "sea4", 0),
    ]
    evaluator, test = PairEvaluator(documents, pairs, validation), [0.9, 0.55, 0.3]
    similarities = np.array([*test, 0.6, 0.4, 0.5])
    scores = evaluator.score(similarities)
    assert scores.test.threshold == pytest.approx(0.55)
    assert scores.validation is not None and scores.validation.values["f1"] == 1
    assert scores.test.values["precision"] == scores.test.values["recall"] == 0.5
    assert scores.to_dict()["validation"]["threshold"] == scores.test.threshold
    # Z-scores are those of the validation pairs, or of the test pairs where there are none.
    expected = (similarities - 0.5) / np.std([0.6, 0.4, 0.5])
    np.testing.assert_allclose(evaluator.fused(similarities, 2 * similarities), 2 * expected)
    alone = PairEvaluator(documents, pairs).score(np.array(test))
    assert alone.test.threshold == pytest.approx(0.3)
    assert alone.to_dict()["validation"] is None
    # Of four dissimilar pairs three are higher than the similar one: nothing is more often right than to find none.
    worse = [*validation, LabelledPair("rice2", "sea0", 0), LabelledPair("rice2", "sea1", 0)]
    strict = PairEvaluator(documents, pairs, worse, by="accuracy")
    found = strict.score(np.array([*test, 0.4, 0.45, 0.5, 0.6, 0.1]))
    assert found.test.threshold > 0.6 and found.validation is not None
    assert found.validation.values["accuracy"] == 0.8


def test_scores_by_the_length_of_the_longer_document(documents: list[Document]) -> None:
    pairs = all_pairs(documents)
    comparison = PairEvaluator(documents, pairs, lengths=(9, 20, 30, 81))
    words = {one.id: one.words for one in documents}
    longer = np.array([max(words[pair.a], words[pair.b]) for pair in pairs])
    np.testing.assert_array_equal(comparison.words, longer)
    scores = comparison.score(np.random.default_rng(0).random(len(pairs)))
    found = scores.lengths
    expected = {"up to 8 words": longer < 9, "9-19 words": (longer >= 9) & (longer < 20),
                "20-29 words": (longer >= 20) & (longer < 30), "30-80 words": longer >= 30}  # fmt: skip
    assert {name: bucket.pairs for name, bucket in found.items()} == {n: rows.sum() for n, rows in expected.items()}
    assert sum(bucket.pairs for bucket in found.values()) == len(pairs) == 45
    assert {bucket.threshold for bucket in found.values()} == {scores.test.threshold}
    # Two documents of 8 words make one pair.
    assert found["up to 8 words"].values["auc"] is None
    assert found["30-80 words"].values["auc"] is not None
    ((name, last),) = PairEvaluator(documents, pairs, lengths=(1,)).score(comparison.tfidf()).lengths.items()
    assert (name, last.pairs) == ("1 words and more", 45)
    assert PairEvaluator(documents, pairs, lengths=()).score(comparison.tfidf()).lengths == {}


def test_pairs_that_are_left_out(documents: list[Document], tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("rice0\trice1\t1\nrice0\tsea0\t0\nrice2\trice2\t1\nsea1\t<b>\t0\nsea0\trice0\t0\n")
    pairs = read_pair_file(path)
    with pytest.raises(DocumentError, match=r"pairs.tsv:4: .*'<b>'"):
        PairEvaluator(documents, pairs)
    comparison = PairEvaluator(documents, pairs, all_pairs(documents[:6]), unknown="leave_out")
    assert comparison.left_out == {"unknown": 1, "with_themselves": 1}
    gone = [LabelledPair("x", "y", 1), LabelledPair("rice0", "sea0", 0)]
    with pytest.raises(EvaluationError, match="1 of 2 pairs"):
        PairEvaluator(documents, gone, unknown="leave_out")
    assert comparison.labels == [1, 0, 0]
    assert comparison.pairs.place(2) == f"{path}:5"
    assert comparison.repeated_in_validation == 3


def test_a_model_in_training_is_measured_and_left_as_it_was(
    tiny_encoder: EncoderFactory, documents: list[Document]
) -> None:
    encoder = tiny_encoder()
    for module in encoder.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    comparison = PairEvaluator(documents, all_pairs(documents))
    expected = comparison(encoder)
    encoder.model.train()
    state = torch.get_rng_state()
    assert comparison.prepared(encoder)(encoder) == pytest.approx(expected)
    assert comparison.prepared(encoder, encode_passages=True)(encoder) == pytest.approx(expected)
    assert encoder.model.training
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("pairs", "validation", "error", "message"),
    [
        ([], [], EvaluationError, "both labels"),
        ([("rice0", "rice1", 1), ("rice0", "sea0", 0)], [("rice0", "sea0", 0)], EvaluationError, "both labels"),
        ([("rice0", "rice1", 1), ("rice1", "rice0", 0)], [], DocumentError, "pair 2: 'rice1' and 'rice0'"),
    ],
)
def test_pairs_that_cannot_be_measured(
    documents: list[Document], pairs: list[Any], validation: list[Any], error: type[Exception], message: str
) -> None:
    made = [[LabelledPair(*pair) for pair in part] for part in (pairs, validation)]
    with pytest.raises(error, match=message):
        PairEvaluator(documents, *made)


def test_the_documents_of_pairs() -> None:
    documents = [Document.from_mapping({"id": id, "text": id}) for id in ("a", "b", "c", "c")]
    pairs = Pairs.of([LabelledPair("a", "b", 1), LabelledPair("b", "gone", 0)])
    assert documents_of_pairs(documents, pairs) == {"a": documents[0], "b": documents[1]}
    with pytest.raises(DocumentError, match="'c'"):
        documents_of_pairs(documents, pairs, Pairs.of([LabelledPair("a", "c", 1)]))
