from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.neighbors import KNeighborsClassifier

from graphdoc.errors import EvaluationError
from graphdoc.evaluation import cluster, purity
from graphdoc.evaluation.clustering import STRENGTHS, linear_probe, mutual_information, nearest_labels
from graphdoc.evaluation.resampling import Estimate, mean_estimate, resampled

Array = npt.NDArray[np.float32]


def purity_by_definition(truth: list[int], clusters: list[int]) -> float:
    hits = 0
    for number in set(clusters):
        members = [label for label, own in zip(truth, clusters, strict=True) if own == number]
        hits += max(members.count(label) for label in members)
    return hits / len(truth)


def nmi_by_definition(truth: npt.NDArray[np.int64], clusters: npt.NDArray[np.int64]) -> float:
    joint = np.array(
        [[np.mean((truth == a) & (clusters == b)) for b in np.unique(clusters)] for a in np.unique(truth)]
    )

    def entropy(shares: npt.NDArray[np.float64]) -> float:
        return -float(sum(share * np.log(share) for share in shares.ravel() if share > 0))

    rows, columns = entropy(joint.sum(axis=1)), entropy(joint.sum(axis=0))
    return (rows + columns - entropy(joint)) / ((rows + columns) / 2)


def groups(seed: int, spread: float, sizes: tuple[int, ...] = (30, 20, 25)) -> tuple[Array, list[str]]:
    """Points around three corners, with the corner as label."""
    draw = np.random.default_rng(seed)
    labels = [str(number) for number, size in enumerate(sizes) for _ in range(size)]
    corners = np.eye(3, 5) * 4
    points = np.array([corners[int(label)] for label in labels]) + spread * draw.normal(size=(len(labels), 5))
    return points.astype(np.float32), labels


def test_purity_of_the_textbook_example() -> None:
    # Manning et al., Introduction to Information Retrieval, figure 16.4: (5 + 4 + 3) / 17.
    assert purity(list("xxxxxoxoooovxxvvv"), [0] * 6 + [1] * 6 + [2] * 5) == pytest.approx(12 / 17)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_purity_by_definition(drawn: list[tuple[int, int]]) -> None:
    truth, clusters = ([pair[side] for pair in drawn] for side in (0, 1))
    assert purity(truth, clusters) == pytest.approx(purity_by_definition(truth, clusters))


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
        assert scores.nmi[place] == pytest.approx(nmi_by_definition(truth, assigned), abs=1e-9)
        assert scores.purity[place] == pytest.approx(purity_by_definition(truth.tolist(), assigned.tolist()))
    assert min(scores.nmi) > 0.05 and max(scores.nmi) < 0.95
    metrics = scores.metrics()
    assert (metrics["nmi"], metrics["nmi_std"]) == pytest.approx((np.mean(scores.nmi), np.std(scores.nmi, ddof=1)))


def test_vectors_that_fell_together(recwarn: pytest.WarningsRecorder) -> None:
    scores = cluster(np.ones((9, 4), np.float32), np.ones((4, 4), np.float32), list("aabb"), 3, [0])
    assert (scores.nmi, scores.purity) == ((0,), (0.5,))
    assert not recwarn.list


@pytest.mark.parametrize(("labels", "clusters", "value"), [("abab", 7, "7"), ("aaaa", 2, "'a'"), ("", 2, "test")])
def test_what_cannot_be_clustered(labels: str, clusters: int, value: str) -> None:
    draw = np.random.default_rng(0)
    with pytest.raises(EvaluationError, match=value):
        cluster(draw.normal(size=(6, 3)), draw.normal(size=(len(labels), 3)), list(labels), clusters, [0])


class TestEstimates:
    @settings(deadline=None, max_examples=50)
    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=60))
    def test_mutual_information_is_that_of_scikit_learn(self, drawn: list[tuple[int, int]]) -> None:
        truth, found = np.array(drawn).T
        table = np.zeros((4, 5))
        np.add.at(table, (truth, found), 1)
        assert mutual_information(table) == pytest.approx(normalized_mutual_info_score(truth, found), abs=1e-9)

    def test_a_resample_is_the_measure_of_the_documents_that_were_drawn(self) -> None:
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
    def test_neighbours_vote_as_in_scikit_learn(self, form: type) -> None:
        (train, train_labels), (test, _) = groups(0, 2.5), groups(1, 2.5)
        found = nearest_labels(form(train), train_labels, form(test), neighbours=1)
        expected = KNeighborsClassifier(1, metric="cosine").fit(train, train_labels).predict(test)
        assert found == expected.tolist()

    def test_a_tie_of_neighbours_goes_to_the_nearer_ones(self) -> None:
        train = np.array([[1.0, 0.1], [1.0, 0.5], [0.1, 1.0], [0.5, 1.0]])
        for neighbours in (4, 99):
            assert nearest_labels(train, list("aabb"), np.array([[0.2, 1.0]]), neighbours) == ["b"]

    def test_differences_are_taken_resample_by_resample(self) -> None:
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


def task(seed: int, documents: int = 200) -> tuple[Array, list[str]]:
    """Three labels that stand in the second number, below a first number of far larger scale."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 3, documents)
    vectors = np.stack([1e4 * draw.normal(size=documents), labels + 0.1 * draw.normal(size=documents)], axis=1)
    return vectors, [f"label {label}" for label in labels]


def test_a_small_number_is_read_as_well_as_a_large_one() -> None:
    (train, train_labels), (test, test_labels) = task(0), task(1)
    scores = linear_probe(train, train_labels, test, test_labels)
    assert scores.accuracy > 0.95
    assert scores.macro_f1 > 0.95
    assert scores.strength in STRENGTHS
    # The middle one of three labels in a line needs weight: the weakest strength cannot be the best.
    assert scores.strength > min(STRENGTHS)


def test_metrics_by_definition() -> None:
    train = np.array([[0.0], [0.1], [1.0], [1.1]])
    test, truth = np.array([[0.0], [0.2], [0.1], [1.0]]), ["a", "a", "b", "b"]
    scores = linear_probe(train, ["a", "a", "b", "b"], test, truth)
    # Found are a a a b: a has precision 2/3 and recall 1, b precision 1 and recall 1/2.
    assert scores.accuracy == 0.75
    assert scores.macro_f1 == pytest.approx((0.8 + 2 / 3) / 2)
    assert scores.strength == 1.0


def test_labels_that_cannot_be_learned() -> None:
    vectors = np.random.default_rng(0).normal(size=(6, 2))
    with pytest.raises(EvaluationError, match=r"train .*c, d, e, \.\.\."):
        linear_probe(vectors, list("aabbab"), vectors, list("abcdef"))
    with pytest.raises(EvaluationError, match=r"train .*'a'"):
        linear_probe(vectors, list("aaaaaa"), vectors, list("aaaaaa"))
