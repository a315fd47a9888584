"""Document vectors in two dimensions (Graph-RoBERTa, figures 3 and 4), and an order that puts like next to like."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from ..errors import EvaluationError

MOST_DOCUMENTS = 1000
PERPLEXITY = 30.0
# Principal components that t-SNE looks for neighbours in, as its authors advise for many dimensions.
COMPONENTS = 50
# To find the best of all orders takes the third power of the number of documents.
_BEST_ORDER = 300


def sample_rows(documents: int, limit: int = MOST_DOCUMENTS, seed: int = 0) -> npt.NDArray[np.int64]:
    """Draw the documents that are shown, the same ones for every model: rows in ascending order, ``(shown,)``."""
    return np.sort(np.random.default_rng(seed).permutation(documents)[:limit]).astype(np.int64)


def project(vectors: npt.NDArray[Any], seed: int = 0) -> npt.NDArray[np.float32]:
    """Lay vectors out in the plane by t-SNE, neighbours next to each other.

    Distances are Euclidean, in the first 50 principal components; unit-length vectors are thereby laid out by cosine.

    Returns:
        ``(documents, 2)``.

    >>> project(np.eye(4)).shape
    (4, 2)
    """
    count = len(vectors)
    if count < 3:
        raise EvaluationError(f"t-SNE needs 3 documents at least, there are {count}; give more or leave out the plot")
    # t-SNE looks for about three times as many neighbours as the perplexity says.
    perplexity = max(1.0, min(PERPLEXITY, (count - 1) / 3))
    vectors = reduced(vectors)
    start = "pca" if vectors.shape[1] > 1 else "random"
    # No neighbour is lost by fewer rounds and rougher forces, and two fifths of the time are saved.
    model = TSNE(2, perplexity=perplexity, init=start, random_state=seed, angle=0.7, max_iter=750)
    return np.asarray(model.fit_transform(np.asarray(vectors, np.float32)), np.float32)


def reduced(vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The first 50 principal components of vectors, or the vectors where they have no more."""
    if min(vectors.shape) <= COMPONENTS:
        return vectors
    return np.asarray(PCA(COMPONENTS, svd_solver="covariance_eigh").fit_transform(vectors))


def order_of(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """An order in which documents that are alike stand next to each other, by average linkage."""
    if len(scores) < 3:
        return np.arange(len(scores))
    distances = float(scores.max()) - (scores + scores.T) / 2
    np.fill_diagonal(distances, 0)
    condensed = squareform(distances, checks=False)
    tree = linkage(condensed, "average")
    if len(scores) <= _BEST_ORDER:
        tree = optimal_leaf_ordering(tree, condensed)
    return np.asarray(leaves_list(tree), np.int64)
