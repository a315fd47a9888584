from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.neighbors import KNeighborsClassifier
from typed import Encoders

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.evaluation import ClusteringEvaluator, purity
from graphdoc.evaluation.clustering import cluster, linear_probe, mutual_information, nearest_labels
from graphdoc.evaluation.resampling import Estimate, mean_estimate, resampled

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
def encoder(tiny_encoder: Encoders) -> DocumentEncoder:
    return tiny_encoder("bert", readout="mean")


def test_everything_is_measured_on_the_encoders_vectors(encoder: DocumentEncoder) -> None:
    train, test = documents("train", 20), documents("test", 8)
    evaluation = ClusteringEvaluator(train, test, seeds=[4, 2], probe=True)
    vectors = encoder.encode([*train, *test], normalize_embeddings=True)
    labels = [[str(document.label) for document in part] for part in (train, test)]
    expected = cluster(vectors[:20], vectors[20:28], labels[1], 2, [4, 2])
    probe = linear_probe(vectors[:20], labels[0], vectors[20:28], labels[1])
    metrics = evaluation(encoder)
    of_probe = {"probe_accuracy": probe.accuracy, "probe_macro_f1": probe.macro_f1}
    assert metrics == pytest.approx(expected.metrics() | of_probe)
    plain = ClusteringEvaluator(train, test, seeds=[4, 2])(encoder)
    assert plain == {name: metrics[name] for name in expected.metrics()}


def test_documents_without_one_label_are_left_out(encoder: DocumentEncoder) -> None:
    train, test = documents("train", 6), documents("test", 4)
    unlabelled = [
        replace(documents("none", 1)[0], id=f"none{number}", label=label)
        for number, label in enumerate((None, "", ("a", "b"), ()))
    ]
    single = replace(train[0], id="single", label=("rice",))
    evaluation = ClusteringEvaluator([*unlabelled, *train, single], [*test, unlabelled[0]], normalize=True)
    assert evaluation.left_out == {"train": 4, "test": 1}
    assert evaluation.train_labels == [*(document.label for document in train), "rice"]
    vectors = evaluation.vectors(encoder)
    assert [len(part) for part in vectors] == [7, 4]
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(vectors), axis=1), 1, atol=1e-5)


Array = npt.NDArray[np.float32]


def purity_by_definition(truth: list[int], clusters: list[int]) -> float:
    pairs = list(zip(clusters, truth, strict=True))
    return sum(max(pairs.count((number, label)) for label in truth) for number in set(clusters)) / len(truth)


def groups(seed: int, spread: float, sizes: tuple[int, ...] = (30, 20, 25)) -> tuple[Array, list[str]]:
    """Points around three corners, with the corner as label."""
    draw = np.random.default_rng(seed)
    labels = [str(number) for number, size in enumerate(sizes) for _ in range(size)]
    corners = np.eye(3, 5) * 4
    points = np.array([corners[int(label)] for label in labels]) + spread * draw.normal(size=(len(labels), 5))
    return points.astype(np.float32), labels


def test_clusters_of_train_are_measured_on_test() -> None:
    (train, _), (test, labels) = groups(0, 0.3), groups(1, 0.3)
    scores = cluster(train, test, labels, 3, range(4))
    assert scores.nmi == pytest.approx([1.0] * 4) and scores.purity == (1.0,) * 4
    # Without a third corner in train, test's falls to one of the other two.
    (merged,) = cluster(train[:50], test, labels, 2, [0]).purity
    assert merged == pytest.approx(50 / 75) or merged == pytest.approx(55 / 75)
    (train, _), (test, labels) = groups(0, 2.5), groups(1, 2.5)
    scores = cluster(train, test, labels, 3, [3, 1])
    # An assignment of our own from the same centres.
    truth = np.array([int(label) for label in labels])
    for place, seed in enumerate((3, 1)):
        centres = KMeans(3, n_init=10, random_state=seed).fit(train).cluster_centers_
        assigned = ((test[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        assert scores.nmi[place] == pytest.approx(normalized_mutual_info_score(truth, assigned), abs=1e-9)
        assert scores.purity[place] == pytest.approx(purity_by_definition(truth.tolist(), assigned.tolist()))
    assert min(scores.nmi) > 0.05 and max(scores.nmi) < 0.95
    # Vectors that fell together are one cluster.
    same = cluster(np.ones((9, 4), np.float32), np.ones((4, 4), np.float32), list("aabb"), 3, [0])
    assert (same.nmi, same.purity) == ((0,), (0.5,))
    metrics = scores.metrics()
    assert (metrics["nmi"], metrics["nmi_std"]) == pytest.approx((np.mean(scores.nmi), np.std(scores.nmi, ddof=1)))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=60))
def test_mutual_information_is_that_of_scikit_learn(drawn: list[tuple[int, int]]) -> None:
    truth, found = np.array(drawn).T
    table = np.zeros((4, 5))
    np.add.at(table, (truth, found), 1)
    assert mutual_information(table) == pytest.approx(normalized_mutual_info_score(truth, found), abs=1e-9)


def test_a_resample_is_the_measure_of_the_documents_that_were_drawn() -> None:
    (train, _), (test, labels) = groups(0, 2.5), groups(1, 2.5)
    scores = cluster(train, test, labels, 3, [5, 6], starts=1)
    estimates = scores.estimates(40, seed=3)
    assert estimates["NMI"].value == np.mean(scores.nmi)
    for number, weights in enumerate(resampled(len(labels), 40, 3)):
        rows = np.repeat(np.arange(len(labels)), weights)
        drawn = [(np.array(labels)[rows], one[rows] % 3) for one in scores.cells]
        expected = np.mean([normalized_mutual_info_score(*both) for both in drawn])
        assert estimates["NMI"].samples[number] == pytest.approx(expected, abs=1e-9)  # type: ignore[index]
        expected = np.mean([purity(*both) for both in drawn])
        assert estimates["purity"].samples[number] == pytest.approx(expected)  # type: ignore[index]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_neighbours_vote_as_in_scikit_learn(form: type) -> None:
    (train, train_labels), (test, _) = groups(0, 2.5), groups(1, 2.5)
    found = nearest_labels(form(train), train_labels, form(test), neighbours=1)
    assert found == KNeighborsClassifier(1, metric="cosine").fit(train, train_labels).predict(test).tolist()


def test_a_tie_of_neighbours_goes_to_the_nearer_ones() -> None:
    train = np.array([[1.0, 0.1], [1.0, 0.5], [0.1, 1.0], [0.5, 1.0]])
    for neighbours in (4, 99):
        assert nearest_labels(train, list("aabb"), np.array([[0.2, 1.0]]), neighbours) == ["b"]


def test_differences_are_taken_resample_by_resample() -> None:
    values = np.random.default_rng(0).random(200)
    one, other = mean_estimate(values + 0.01, 200), mean_estimate(values, 200)
    difference = one - other
    assert difference.value == pytest.approx(0.01)
    # Taken apart, the interval of either is ten times as wide as the difference.
    assert difference.interval == pytest.approx((0.01, 0.01))
    assert (difference.verdict, (other - one).verdict, (one - one).verdict) == ("better", "worse", "no difference")
    assert Estimate(0.5).interval is None and Estimate(0.5).verdict == "no difference"
    draw = np.random.default_rng(0)
    expected = [values[draw.integers(200, size=200)].mean() for _ in range(200)]
    np.testing.assert_allclose(other.samples, expected)  # type: ignore[arg-type]


def test_metrics_by_definition() -> None:
    train = np.array([[0.0], [0.1], [1.0], [1.1]])
    test, truth = np.array([[0.0], [0.2], [0.1], [1.0]]), ["a", "a", "b", "b"]
    scores = linear_probe(train, ["a", "a", "b", "b"], test, truth)
    # Found are a a a b: a has precision 2/3 and recall 1, b precision 1 and recall 1/2.
    assert scores.accuracy == 0.75
    assert scores.macro_f1 == pytest.approx((0.8 + 2 / 3) / 2)
    assert scores.strength == 1.0
