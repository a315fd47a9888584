"""What a general-purpose vector is measured on, for models that were trained on neither: topics and pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from reporting import DATA
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score, roc_auc_score
from sklearn.preprocessing import normalize

from graphdoc import Document, read_documents
from graphdoc.documents.readers.pair_files import read_pair_file

WIKISPEEDIA, NEWSGROUPS = DATA / "wikispeedia", DATA / "newsgroups20"
FITTED, STARTS = 4_000, 4


class Labelled(Protocol):
    """A document, or what stands for one."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def label(self) -> Any:
        """Its label."""


Item = TypeVar("Item", bound=Labelled)


@dataclass(frozen=True)
class ZeroShot(Generic[Item]):
    """NMI of 20 Newsgroups, NMI of wikispeedia subjects, AUC of wikispeedia pairs.

    Args:
        newsgroups: messages that k-means is fitted on, and those it is applied to.
        subjects: articles with labels, likewise.
        test: articles of the pairs.
    """

    newsgroups: tuple[list[Item], list[Item]]
    subjects: tuple[list[Item], list[Item]]
    test: list[Item]

    def __call__(self, vectors_of: Callable[[list[Item]], np.ndarray]) -> tuple[float, float, float]:
        """The three figures of vectors."""
        found = {one.id: row for row, one in enumerate(self.test)}
        unit = normalize(vectors_of(self.test))
        pairs = [p for p in read_pair_file(WIKISPEEDIA / "pairs_test.tsv") if p.a in found and p.b in found]
        scores = [float(unit[found[pair.a]] @ unit[found[pair.b]]) for pair in pairs]
        auc = float(roc_auc_score([pair.label for pair in pairs], scores))
        return self._nmi(vectors_of, *self.newsgroups, 2), self._nmi(vectors_of, *self.subjects, 6), auc

    def _nmi(
        self, vectors_of: Callable[[list[Item]], np.ndarray], train: list[Item], test: list[Item], seeds: int
    ) -> float:
        fitted = np.random.default_rng(0).permutation(len(train))[:FITTED]
        a, b = normalize(vectors_of([train[row] for row in fitted])), normalize(vectors_of(test))
        clusters = len({one.label for one in train})
        labels = [one.label for one in test]
        return float(
            np.mean([
                normalized_mutual_info_score(
                    labels, KMeans(clusters, n_init=STARTS, random_state=seed).fit(a).predict(b)
                )
                for seed in range(seeds)
            ])
        )  # fmt: skip


def messages_of(part: str, most: int | None = None) -> list[Document]:
    """Messages of a part of 20 Newsgroups, all or so many drawn from all of them."""
    return drawn(list(read_documents(NEWSGROUPS / f"{part}.jsonl.gz")), most)


def drawn(documents: list[Document], most: int | None) -> list[Document]:
    """So many documents in their order, drawn from all of them."""
    rows = np.random.default_rng(0).permutation(len(documents))[:most]
    return [documents[row] for row in sorted(rows.tolist())]
