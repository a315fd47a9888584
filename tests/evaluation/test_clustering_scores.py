from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoc.errors import EvaluationError
from graphdoc.evaluation import SeedScores, cluster, purity

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


@st.composite
def labellings(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    size = draw(st.integers(1, 30))
    part = st.lists(st.integers(0, 4), min_size=size, max_size=size)
    return draw(part), draw(part)


class TestPurity:
    def test_worked_example(self) -> None:
        # Manning et al., Introduction to Information Retrieval, figure 16.4: (5 + 4 + 3) / 17.
        truth = list("xxxxxo" + "xoooov" + "xxvvv")
        assert purity(truth, [0] * 6 + [1] * 6 + [2] * 5) == pytest.approx(12 / 17)

    @given(labellings())
    def test_definition(self, case: tuple[list[int], list[int]]) -> None:
        assert purity(*case) == pytest.approx(purity_by_definition(*case))

    @given(labellings(), st.randoms(use_true_random=False))
    def test_names_and_order_play_no_part(self, case: tuple[list[int], list[int]], random: object) -> None:
        truth, clusters = (np.array(part) for part in case)
        value = purity(truth, clusters)
        assert 0 < value <= 1
        names, order = list(range(5)), list(range(len(truth)))
        random.shuffle(names)  # type: ignore[attr-defined]
        random.shuffle(order)  # type: ignore[attr-defined]
        assert purity(truth[order], np.array(names)[clusters][order]) == pytest.approx(value)
        assert purity(np.array(names)[truth], clusters) == pytest.approx(value)

    @given(labellings())
    def test_finer_clusters_are_as_pure_at_least(self, case: tuple[list[int], list[int]]) -> None:
        truth, clusters = case
        finer = [2 * own + place % 2 for place, own in enumerate(clusters)]
        assert purity(truth, finer) >= purity(truth, clusters) - 1e-12
        assert purity(truth, range(len(truth))) == 1  # type: ignore[arg-type]

    def test_no_documents(self) -> None:
        with pytest.raises(EvaluationError, match="there are no documents"):
            purity([], [])


class TestCluster:
    def test_clusters_are_found_on_train_and_measured_on_test(self) -> None:
        (train, _), (test, labels) = groups(0, 0.3), groups(1, 0.3)
        scores = cluster(train, test, labels, 3, range(4))
        assert scores.nmi.values == pytest.approx([1.0] * 4)
        assert scores.purity.values == (1.0,) * 4
        # The clusters are those of train: without a third corner there, test's falls to one of the other two.
        merged = cluster(train[:50], test, labels, 2, [0]).purity.mean
        assert merged == pytest.approx(50 / 75) or merged == pytest.approx(55 / 75)

    def test_definitions(self) -> None:
        (train, _), (test, labels) = groups(0, 2.5), groups(1, 2.5)
        scores = cluster(train, test, labels, 3, [3, 1])
        # An assignment of our own from the same centres.
        from sklearn.cluster import KMeans

        for place, seed in enumerate((3, 1)):
            centres = KMeans(3, n_init=10, random_state=seed).fit(train).cluster_centers_
            found = ((test[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
            truth = np.array([int(label) for label in labels])
            assert scores.nmi.values[place] == pytest.approx(nmi_by_definition(truth, found), abs=1e-9)
            assert scores.purity.values[place] == pytest.approx(purity_by_definition(truth.tolist(), found.tolist()))
        assert 0.05 < scores.nmi.mean < 0.95
        assert scores.seeds == (3, 1)

    def test_spread(self) -> None:
        scores = SeedScores((0.5, 0.6, 0.8))
        assert scores.to_dict() == {
            "mean": pytest.approx(1.9 / 3),
            "std": pytest.approx(np.sqrt(0.14 / 3 / 2)),
            "min": 0.5,
            "max": 0.8,
            "values": [0.5, 0.6, 0.8],
        }
        assert SeedScores((0.5,)).std == 0

    def test_dict(self) -> None:
        (train, _), (test, labels) = groups(0, 0.3), groups(1, 0.3)
        content = cluster(train, test, labels, 3, [7]).to_dict()
        assert (content["clusters"], content["seeds"]) == (3, [7])
        assert content["nmi"]["mean"] <= 1

    @settings(max_examples=10)
    @given(st.floats(0.1, 10), st.permutations(range(5)))
    def test_scale_and_order_of_coordinates_play_no_part(self, scale: float, order: list[int]) -> None:
        (train, _), (test, labels) = groups(2, 0.8), groups(3, 0.8)
        expected = cluster(train, test, labels, 3, [0]).purity.mean
        assert cluster(train[:, order] * scale, test[:, order] * scale, labels, 3, [0]).purity.mean == expected

    def test_vectors_that_fell_together(self, recwarn: pytest.WarningsRecorder) -> None:
        scores = cluster(np.ones((9, 4), np.float32), np.ones((4, 4), np.float32), list("aabb"), 3, [0])
        assert (scores.nmi.mean, scores.purity.mean) == (0, 0.5)
        assert not recwarn.list

    @pytest.mark.parametrize(
        ("labels", "clusters", "seeds", "message"),
        [
            ("abab", 7, [0], "k-means cannot make 7 clusters of 6 train documents; give more documents or fewer"),
            ("abab", 0, [0], "k-means cannot make 0 clusters"),
            ("aaaa", 2, [0], "all test documents have the label 'a'; two are needed at least"),
            ("", 2, [0], "no test document has a label"),
            ("abab", 2, [], "there is no seed"),
        ],
    )
    def test_refusals(self, labels: str, clusters: int, seeds: list[int], message: str) -> None:
        draw = np.random.default_rng(0)
        with pytest.raises(EvaluationError, match=message):
            cluster(draw.normal(size=(6, 3)), draw.normal(size=(len(labels), 3)), list(labels), clusters, seeds)
