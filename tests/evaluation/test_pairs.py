from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score
from typed import Documents, Encoders

from graphdoc.documents.document import Document
from graphdoc.documents.readers.pair_files import Pairs
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError
from graphdoc.evaluation import LabelledPair, PairEvaluator, read_pair_file
from graphdoc.evaluation.pair_scores import METRICS, best_threshold, pair_auc, score_pairs, standard_scores
from graphdoc.evaluation.pairs import documents_of_pairs
from graphdoc.similarity.kinds import row_similarities

WORDS = {"rice": "rice steam koji mould grain", "sea": "tide wave marsh wall flood"}


def document(id: str, topic: str, words: int, seed: int = 0) -> Document:
    return Document.from_text(" ".join(np.random.default_rng(seed).choice(WORDS[topic].split(), words)), id=id)


@pytest.fixture
def documents() -> list[Document]:
    """Ten documents of two topics and of 8 to 80 words."""
    return [document(f"{topic}{n}", topic, 8 * (n + 1) * (1 + (n > 3)), n) for topic in WORDS for n in range(5)]


def all_pairs(documents: Documents) -> list[LabelledPair]:
    return [
        LabelledPair(a.id, b.id, int(a.id[:3] == b.id[:3])) for n, a in enumerate(documents) for b in documents[n + 1 :]
    ]


@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_an_encoder_is_measured_as_it_compares(tiny_encoder: Encoders, documents: Documents, kind: str) -> None:
    encoder = tiny_encoder("bert", similarity=kind)
    pairs = all_pairs(documents)
    comparison = PairEvaluator([*documents, document("other", "sea", 9)], pairs, resamples=50)
    by_id = {one.id: one for one in documents}
    expected = [encoder.compare(by_id[pair.a], by_id[pair.b]).document for pair in pairs]

    similarities = comparison.similarities(encoder)
    scores = comparison.score(similarities)

    np.testing.assert_allclose(similarities, expected, atol=1e-5)
    assert [one.id for one in comparison.documents] == [one.id for one in documents]  # type: ignore[union-attr]
    assert scores.test.values["auc"] == pytest.approx(pair_auc([p.label for p in pairs], expected))
    assert scores.test.threshold == pytest.approx(best_threshold([p.label for p in pairs], expected), abs=1e-5)
    assert scores.validation is None
    assert scores.test.estimates["auc"].interval is not None
    assert comparison(encoder) == {f"pair_{name}": scores.test.values[name] for name in METRICS}


def test_a_model_with_a_reference_is_measured_as_it_compares(mini: DocumentEncoder, documents: Documents) -> None:
    pairs = [pair for pair in all_pairs(documents) if "sea" in pair.b]
    evaluator, by_id = PairEvaluator(documents, pairs), {one.id: one for one in documents}
    compared = [mini.compare(by_id[pair.a], by_id[pair.b]) for pair in pairs]
    assert {one.similarity for one in compared} == {"evidence"}
    np.testing.assert_allclose(evaluator.similarities(mini), [one.document for one in compared], atol=1e-5)
    cosines = [row_similarities(one.a.vector[None], one.b.vector[None])[0] for one in compared]
    np.testing.assert_allclose(evaluator.similarities(mini, by_vectors=True), cosines, atol=1e-5)


def test_the_threshold_is_chosen_on_the_validation_pairs(documents: Documents) -> None:
    pairs = [LabelledPair("rice0", "rice1", 1), LabelledPair("rice0", "sea0", 0), LabelledPair("sea0", "sea1", 1)]
    own = [("rice3", 1), ("sea3", 0), ("sea4", 0), ("sea0", 0), ("sea1", 0)]
    validation = [LabelledPair("rice2", other, label) for other, label in own]
    evaluator, test = PairEvaluator(documents, pairs, validation[:3]), [0.9, 0.55, 0.3]
    similarities = np.array([*test, 0.6, 0.4, 0.5])
    scores = evaluator.score(similarities)
    assert scores.test.threshold == pytest.approx(0.55)
    assert scores.validation is not None and scores.validation.values["f1"] == 1
    assert scores.test.values["precision"] == scores.test.values["recall"] == 0.5
    # Z-scores are those of the validation pairs, or of the test pairs where there are none.
    expected = (similarities - 0.5) / np.std([0.6, 0.4, 0.5])
    np.testing.assert_allclose(evaluator.fused(similarities, 2 * similarities), 2 * expected)
    alone = PairEvaluator(documents, pairs).score(np.array(test))
    assert alone.test.threshold == pytest.approx(0.3) and alone.to_dict()["validation"] is None
    # Of four dissimilar pairs three are higher than the similar one: nothing is more often right than to find none.
    strict = PairEvaluator(documents, pairs, validation, by="accuracy")
    found = strict.score(np.array([*test, 0.4, 0.45, 0.5, 0.6, 0.1]))
    assert found.test.threshold > 0.6 and found.validation is not None
    assert found.validation.values["accuracy"] == 0.8


def test_scores_by_the_length_of_the_longer_document(documents: Documents) -> None:
    pairs = all_pairs(documents)
    comparison = PairEvaluator(documents, pairs, lengths=(9, 20, 30, 81))
    words = {one.id: one.words for one in documents}
    longer = np.array([max(words[pair.a], words[pair.b]) for pair in pairs])
    np.testing.assert_array_equal(comparison.words, longer)
    scores = comparison.score(np.random.default_rng(0).random(len(pairs)))
    bounds = {"up to 8 words": (0, 9), "9-19 words": (9, 20), "20-29 words": (20, 30), "30-80 words": (30, 81)}
    found = {name: bucket.pairs for name, bucket in scores.lengths.items()}
    assert found == {name: ((longer >= low) & (longer < high)).sum() for name, (low, high) in bounds.items()}
    assert {bucket.threshold for bucket in scores.lengths.values()} == {scores.test.threshold}
    # Two documents of 8 words make one pair.
    assert [bucket.values["auc"] is None for bucket in scores.lengths.values()] == [True, False, False, False]
    for lengths, names in (((1,), ["1 words and more"]), ((), [])):
        found = PairEvaluator(documents, pairs, lengths=lengths).score(comparison.tfidf()).lengths
        assert list(found) == names


def test_pairs_that_are_left_out(documents: Documents, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("rice0\trice1\t1\nrice0\tsea0\t0\nrice2\trice2\t1\nsea1\t<b>\t0\nsea0\trice0\t0\n")
    pairs = read_pair_file(path)
    with pytest.raises(DocumentError, match=r"pairs.tsv:4: .*'<b>'"):
        PairEvaluator(documents, pairs)
    comparison = PairEvaluator(documents, pairs, all_pairs(documents[:6]), unknown="leave_out")
    assert comparison.left_out == {"unknown": 1, "with_themselves": 1}
    assert comparison.labels == [1, 0, 0]
    assert comparison.pairs.location(2) == f"{path}:5"
    assert comparison.repeated_in_validation == 3


def test_a_model_in_training_is_measured_and_left_as_it_was(tiny_encoder: Encoders, documents: Documents) -> None:
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


def test_the_documents_of_pairs() -> None:
    documents = [Document.from_mapping({"id": id, "text": id}) for id in ("a", "b", "c", "c")]
    pairs = Pairs.from_sequence([LabelledPair("a", "b", 1), LabelledPair("b", "gone", 0)])
    assert documents_of_pairs(documents, pairs) == {"a": documents[0], "b": documents[1]}


# Few different similarities, so that there are ties.
CASES = st.lists(st.tuples(st.integers(0, 1), st.integers(-5, 5)), min_size=1, max_size=25)


def by_hand(labels: np.ndarray, found: np.ndarray) -> dict[str, float]:
    """Precision, recall, F1 and accuracy by their definitions."""
    hits, false, missed = (int((found & (labels == 1)).sum()), int((found & (labels == 0)).sum()),
                           int((~found & (labels == 1)).sum()))  # fmt: skip
    precision, recall = (hits / whole if whole else 0.0 for whole in (hits + false, hits + missed))
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {"precision": precision, "recall": recall, "f1": f1, "accuracy": float(np.mean(found == (labels == 1)))}


@given(CASES, st.sampled_from(["f1", "accuracy"]))
def test_no_threshold_is_better_than_the_best(cases: list[tuple[int, int]], by: str) -> None:
    labels, scores = np.array([*cases, (1, 0)]).T
    scores = scores / 10
    threshold = best_threshold(labels.tolist(), scores, by)  # type: ignore[arg-type]
    reached = by_hand(labels, scores >= threshold)[by]
    everything = {other: by_hand(labels, scores >= other)[by] for other in np.arange(-0.65, 0.7, 0.05)}
    assert reached == pytest.approx(max(everything.values()))
    # It is the highest of the best, halfway to the next similarity below.
    best = [other for other, value in everything.items() if value == pytest.approx(reached) and other <= scores.max()]
    assert (scores >= threshold).sum() == ((scores >= max(best)).sum() if best else 0)
    above, below = scores[scores >= threshold], scores[scores < threshold]
    if len(above) and len(below):
        assert threshold == pytest.approx((above.min() + below.max()) / 2)


def test_thresholds_between_neighbouring_numbers() -> None:
    low = 0.1
    high = float(np.nextafter(low, 1))
    assert best_threshold([0, 1], [low, high]) == high
    # Accuracy is best with no pair at all, which a finite threshold has to say.
    assert 0.5 < best_threshold([0, 0, 1], [0.5, 0.5, 0.1], "accuracy") < 0.51
    assert best_threshold([1, 1], [0.5, 0.2]) == 0.2


@given(CASES, st.integers(0, 50))
def test_every_resample_is_measured_as_its_pairs_are(cases: list[tuple[int, int]], seed: int) -> None:
    labels, scores = np.array(cases).T
    scores = scores / 10
    found = score_pairs(labels.tolist(), scores, 0.1, resamples=4, seed=seed)
    draw = np.random.default_rng(seed)
    for number in range(4):
        rows = draw.integers(len(labels), size=len(labels))
        expected = by_hand(labels[rows], scores[rows] >= 0.1)
        if 0 < labels[rows].sum() < len(rows):
            expected["auc"] = roc_auc_score(labels[rows], scores[rows])
            expected["average_precision"] = average_precision_score(labels[rows], scores[rows])
        for name, estimate in found.estimates.items():
            assert estimate.samples is not None
            assert estimate.samples[number] == pytest.approx(expected.get(name, np.nan), nan_ok=True)


def test_values_and_intervals() -> None:
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 400)
    scores = labels + draw.normal(size=400)
    found = score_pairs(labels, scores, 0.5)
    auc = np.mean([a > b for a in scores[labels == 1] for b in scores[labels == 0]])
    expected = {**by_hand(labels, scores >= 0.5), "auc": auc}
    assert {name: found.values[name] for name in expected} == pytest.approx(expected)
    assert found.values["average_precision"] == pytest.approx(average_precision_score(labels, scores))
    assert (found.pairs, found.similar, found.threshold) == (400, labels.sum(), 0.5)
    for estimate in found.estimates.values():
        low, high = estimate.interval or (0, 0)
        # About 4 standard errors wide.
        assert low < estimate.value < high and 0.03 < high - low < 0.2
    plain = found.to_dict()
    assert plain["intervals"]["auc"] == list(found.estimates["auc"].interval or ())
    assert set(plain) == {"pairs", "similar", "threshold", "intervals", *METRICS}


@pytest.mark.parametrize("label", [0, 1])
def test_pairs_of_one_label_have_no_ranking(label: int) -> None:
    found = score_pairs([label] * 3, [0.1, 0.2, 0.3], 0.15, resamples=5)
    assert found.values["auc"] is None and found.values["average_precision"] is None
    assert found.to_dict()["intervals"]["auc"] is None
    assert found.values["accuracy"] == pytest.approx(1 / 3 if label == 0 else 2 / 3)


def test_z_scores_of_numbers_that_differ_by_rounding_alone() -> None:
    draw = np.random.default_rng(0)
    values, same = draw.normal(3, 2, 9), 7 + draw.normal(0, 1e-9, 9)
    np.testing.assert_allclose(standard_scores(values, values[:4]), (values - values[:4].mean()) / values[:4].std())
    assert same.std() > 0 and standard_scores(same).tolist() == [0] * 9
