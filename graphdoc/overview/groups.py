"""The groups that documents form, their places on a map, and the words that tell groups and documents apart."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import to_tree
from scipy.sparse import csr_array
from sklearn.cluster import AgglomerativeClustering, ward_tree
from sklearn.feature_extraction.text import TfidfTransformer

from ..analysis.projection import project, reduced
from ..runtime.arrays import Rows, Vectors
from ..similarity.background import FEWEST_DOCUMENTS
from ..similarity.kinds import similarity_matrix
from ..subtopics.table import distinctive_terms
from .digests import WordCounts
from .neighbours import ROUNDING, Neighbours, are_alike

# The golden angle, by which points on a spiral keep apart.
_TURN = np.pi * (3 - np.sqrt(5))
# A word that fewer of a group's documents have says nothing about the group.
_LEAST_SHARE = 0.15
# Nearest documents that a document is linked to, those it joins in a tree, and how many times as many links as by
# chance hold a branch together.
LINKED, _JOINED, _HELD = 20, 10, 3
_ROUNDS = 10
_SMALLEST = 4
# Of few documents the smallest group, and by how many deviations its pairs are closer than the median of all pairs.
_SMALLEST_OF_FEW, _CLOSER = 3, 0.75
# A document joins a group where this share of its nearest documents, at least, is in it.
SHARE = 0.3


def lay_out(vectors: npt.NDArray[np.float32], seed: int = 0) -> npt.NDArray[np.float32]:
    """Give every document a place on a map, by t-SNE.

    Two documents, and documents that are all alike, have no neighbourhoods: they are put on a spiral.

    Returns:
        ``(documents, 2)``, from -1 to 1 in the longer direction and with the middle at 0.
    """
    documents = len(vectors)
    if documents < 3 or are_alike(vectors):
        places = np.arange(documents) + 0.5
        points = np.stack([np.cos(places * _TURN), np.sin(places * _TURN)], axis=1) * np.sqrt(places)[:, None]
    else:
        points = project(vectors, seed).astype(np.float64)
    low, high = points.min(axis=0), points.max(axis=0)
    points = (points - (low + high) / 2) / (float((high - low).max()) / 2 or 1.0)
    return np.asarray(points, np.float32)


def words_of_groups(words: WordCounts, groups: Sequence[Rows], top_k: int) -> list[tuple[str, ...]]:
    """The words that tell every group from the others, the most distinctive first (:func:`distinctive_terms`).

    A word counts once for every document that has it, a little more where it occurs often there: so that one long
    document does not name its group.
    """
    weights = csr_array(words.counts, dtype=np.float64)
    weights.data = np.log1p(weights.data)
    counts = []
    for rows in groups:
        own = weights[rows]
        total = np.asarray(own.sum(axis=0)).ravel()
        occurs_in = np.bincount(own.indices, minlength=own.shape[1])
        shared = np.flatnonzero(occurs_in >= max(min(2, len(rows)), _LEAST_SHARE * len(rows)))
        # By falling number, so that of equals the more frequent comes first.
        order = shared[np.lexsort((shared, -total[shared]))]
        counts.append({int(term): float(total[term]) for term in order})
    return [tuple(words.written[term] for term in own) for own in distinctive_terms(counts, top_k)]


def words_of_documents(words: WordCounts, top_k: int) -> tuple[list[str], list[Rows]]:
    """The words that tell every document from the others, by tf-idf, the most distinctive first.

    Returns:
        All words that are keywords somewhere, and for every document their places among these.
    """
    if not words.written:
        return [], [np.empty(0, np.int64)] * words.counts.shape[0]
    weights = csr_array(TfidfTransformer(sublinear_tf=True, norm=None).fit_transform(words.counts))
    chosen = []
    for start, end in zip(weights.indptr, weights.indptr[1:], strict=False):
        terms = weights.indices[start:end]
        chosen.append(terms[np.lexsort((terms, -weights.data[start:end]))][:top_k].astype(np.int64))
    used, places = np.unique(np.concatenate(chosen), return_inverse=True)
    return [words.written[term] for term in used], np.split(places, np.cumsum([len(own) for own in chosen])[:-1])


def move(vectors: npt.NDArray[Any], near: Neighbours) -> npt.NDArray[Any]:
    """50 principal components, ``(documents, 50)``, moved to the mean of their nearest and those they are near to."""
    vectors, links = reduced(vectors), _links(near)
    return np.asarray((links @ vectors + vectors) / (links.sum(axis=1) + 1)[:, None])


def _links(near: Neighbours, most: int = LINKED) -> csr_array:
    documents = len(near.rows)
    # Of few documents, many are near to all.
    rows = near.rows[:, : min(most, documents // 10)]
    ends = np.repeat(np.arange(documents), rows.shape[1]), rows.ravel()
    links = csr_array((np.ones(rows.size), ends), shape=(documents, documents))
    return csr_array(links + links.T)


def find_groups(vectors: Vectors, moved: npt.NDArray[Any], near: Neighbours, size: int | None = None) -> list[Rows]:
    """Find groups in the graph of nearest documents, and leave out those that lie near none or between several.

    Vectors that are ``moved`` once (:func:`move`) move again, and are joined to a tree (Ward, 1963). From its root a
    branch is divided where its halves are linked less than three times as much as by chance (modularity of Reichardt
    and Bornholdt, 2006). From the branches k-means starts. A document with fewer than three of its ten nearest in its
    group leaves it, and joins another one that has three, round after round.

    Of fewer than 50 documents each is near to each: groups are those of average linkage, with cosines well above most.

    A branch has ``size`` documents at least; None takes a third of the square root of their number, of few three.

    Returns:
        Rows of the documents of every group, the largest group first.
    """
    documents, is_few = len(vectors), len(vectors) < FEWEST_DOCUMENTS
    if documents < 2 * (size or _SMALLEST) or are_alike(vectors):
        return []
    size = size or (_SMALLEST_OF_FEW if is_few else max(_SMALLEST, round(np.sqrt(documents) / 3)))
    if is_few:
        distances = 1 - similarity_matrix(vectors, vectors)
        of_pairs = distances[np.triu_indices(documents, 1)]
        farthest = max(ROUNDING, float(np.median(of_pairs) - _CLOSER * of_pairs.std()))
        tree = AgglomerativeClustering(None, metric="precomputed", linkage="average", distance_threshold=farthest)
        labels = tree.fit_predict(distances)
    else:
        branches = _branches(move(moved, near), near, size)
        for _ in range(_ROUNDS):
            # scikit-learn's k-means would copy all vectors.
            means = np.stack([vectors[rows].mean(axis=0) for rows in branches])
            found = (vectors @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1)
            branches = [np.flatnonzero(found == label) for label in np.unique(found)]
        labels = _joined(found, near.rows[:, :10])
    groups = [rows for label in range(int(labels.max()) + 1) if len(rows := np.flatnonzero(labels == label)) >= size]
    return sorted(groups, key=lambda rows: (-len(rows), int(rows[0])))


def _branches(vectors: npt.NDArray[Any], near: Neighbours, size: int) -> list[Rows]:
    links = _links(near)
    with warnings.catch_warnings():
        # Parts without links between them are linked where they are closest, with a warning.
        warnings.simplefilter("ignore", UserWarning)
        joined, *_, distances = ward_tree(vectors, connectivity=_links(near, _JOINED), return_distance=True)
    sizes = [1] * len(vectors)
    for left, right in joined:
        sizes.append(sizes[left] + sizes[right])
    degrees = links.sum(axis=1)
    waiting, found = [to_tree(np.column_stack([joined, distances, sizes[len(vectors) :]]))], []
    while waiting:
        branch = waiting.pop()
        rows = np.array(branch.pre_order())
        if branch.count >= 2 * size:
            left, right = np.split(rows, [branch.left.count])
            by_chance = degrees[left].sum() * degrees[right].sum() / degrees.sum()
            if links[left][:, right].sum() < _HELD * by_chance:
                waiting += [branch.left, branch.right]
                continue
        if branch.count >= size:
            found.append(rows)
    return found


def _joined(labels: Rows, near: Rows) -> Rows:
    needed = SHARE * near.shape[1]
    labels = np.where((labels[near] == labels[:, None]).sum(axis=1) < needed, -1, labels)
    while True:
        votes = (labels[near][:, :, None] == np.arange(labels.max() + 1)).sum(axis=1)
        joins = (labels < 0) & (votes >= needed).any(axis=1)
        if not joins.any():
            return labels
        labels = np.where(joins, votes.argmax(axis=1), labels)
