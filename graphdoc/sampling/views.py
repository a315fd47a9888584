"""Views of a pair of documents: sentences chosen by subtopics that both share, or in other ways (SST, eq. 7-9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..runtime.arrays import Rows
from .batches import random_generator

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ViewSide:
    """One document of a pair, as views are sampled from it.

    Args:
        id: its id, on which draws depend.
        clusters: ``(sentences,)``, subtopic of every sentence.
        tokens: ``(sentences,)``, tokens of every sentence, without special tokens.
    """

    id: str
    clusters: npt.NDArray[np.integer[Any]]
    tokens: npt.NDArray[np.integer[Any]]

    def head(self, sentences: int) -> ViewSide:
        """The document up to some sentence."""
        return ViewSide(self.id, self.clusters[:sentences], self.tokens[:sentences])


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The sentences that a sampling chooses from.

    Args:
        side: the document that a view is sampled from.
        counts: ``(subtopics,)``, its sentences in every subtopic.
        other_counts: ``(subtopics,)``, those of the other document.
        most_tokens: tokens of a view.
        rng: random numbers of this view.
    """

    side: ViewSide
    counts: Rows
    other_counts: Rows
    most_tokens: int
    rng: np.random.Generator

    @property
    def common(self) -> Rows:
        """The smaller number of sentences that either document has in a subtopic, ``(subtopics,)``."""
        return np.minimum(self.counts, self.other_counts)

    def roulette(self, *rounds: npt.NDArray[Any]) -> Iterator[int]:
        """Choose subtopics by their shares, and of each a sentence, until all with a share are used up.

        A subtopic without sentences drops out, and the shares of the others grow in proportion.

        Args:
            rounds: ``(subtopics,)`` each, how likely every subtopic is; later ones count once those before are used up.
        """
        left = [np.flatnonzero(self.side.clusters == subtopic).tolist() for subtopic in range(len(self.counts))]
        for shares in rounds:
            shares = np.where([bool(sentences) for sentences in left], shares, 0.0)
            while (total := shares.sum()) > 0:
                subtopic = int(np.searchsorted(np.cumsum(shares), self.rng.random() * total, side="right"))
                subtopic = min(subtopic, int(np.flatnonzero(shares)[-1]))
                yield left[subtopic].pop(int(self.rng.integers(len(left[subtopic]))))
                if not left[subtopic]:
                    shares[subtopic] = 0.0


# Gives sentence after sentence, as they are put into a view; graphdoc.registry.VIEW_SAMPLINGS names those below.
Sampling = Callable[[Choice], Iterator[int]]


def uniform(choice: Choice) -> Iterator[int]:
    r"""Subtopics with the same probability, ``P_i = 1 / m`` (eq. 7)."""
    return choice.roulette(np.ones(len(choice.counts)))


def hard(choice: Choice) -> Iterator[int]:
    r"""The largest subtopic that both documents have, and where it is used up the others as in eq. 7 (eq. 8)."""
    common, uniform_shares = choice.common, np.ones(len(choice.counts))
    if not common.any():
        return choice.roulette(uniform_shares)
    return choice.roulette(np.arange(len(common)) == common.argmax(), uniform_shares)


def soft(choice: Choice) -> Iterator[int]:
    r"""Subtopics by ``Q = P^a * P / (P^a . P)``: those that are large here, and large in both documents (eq. 9).

    Without a common subtopic, and where the common ones are used up, subtopics have their shares in the document.
    """
    own = choice.counts / max(int(choice.counts.sum()), 1)
    return choice.roulette(choice.common * own, own)


def negative(choice: Choice) -> Iterator[int]:
    """The smaller half of the subtopics, each with the same probability: the opposite of :func:`hard`.

    Of two that both documents have as little of, the one with fewer sentences is the smaller. A document with nothing
    in them gives sentences of its smallest subtopic.
    """
    both = choice.counts + choice.other_counts
    order = np.lexsort((np.arange(len(both)), both, choice.common))
    # Subtopics beyond the field of a view do not count.
    order = order[both[order] > 0]
    half = order[: max(len(order) // 2, 1)]
    if not choice.counts[half].any():
        half = order[choice.counts[order] > 0][:1]
    return choice.roulette(np.isin(np.arange(len(both)), half))


def run_of_sentences(choice: Choice) -> Iterator[int]:
    """A run of sentences from a random place, such that they fill the view where the document does."""
    tokens = np.asarray(choice.side.tokens, np.int64)
    starts = int(np.count_nonzero(np.cumsum(tokens[::-1])[::-1] >= choice.most_tokens))
    return iter(range(int(choice.rng.integers(max(starts, 1))), len(tokens)))


def first_sentences(choice: Choice) -> Iterator[int]:
    """The first sentences."""
    return iter(range(len(choice.side.tokens)))


class SentenceLikelihoods(NamedTuple):
    r"""How likely the sentences of a document are under its unigram model, :math:`P(w) = n_w / \sum_v n_v`.

    Args:
        logarithms: ``(sentences,)``, sums of the logarithms of :math:`P` over the terms of every sentence.
        terms: ``(sentences,)``, how many terms it has.
    """

    logarithms: Shares
    terms: Rows

    @classmethod
    def from_sentences(cls, sentences: Sequence[Sequence[str]]) -> SentenceLikelihoods:
        """The likelihoods of a document from the terms of every sentence, repetitions included."""
        counts = Counter(chain.from_iterable(sentences))
        total = counts.total()
        sums = [sum(np.log(counts[term] / total) for term in terms) for terms in sentences]
        return cls(np.array(sums, np.float64), np.array([len(terms) for terms in sentences], np.int64))

    def of_view(self, sentences: Rows) -> float:
        """The query likelihood of a view of some sentences: the mean over its terms; below all others without any."""
        terms = int(self.terms[sentences].sum())
        return float(self.logarithms[sentences].sum()) / terms if terms else -np.inf


# Views that are trained on, and those that a pair is matched by: other draws.
Purpose = Literal["training", "matching"]


class View(NamedTuple):
    """Some sentences of a document.

    Args:
        sentences: ``(chosen,)``, their numbers in the document, in reading order.
        tokens: ``(chosen,)``, how many tokens of each are in the view, counted from its first.
    """

    sentences: Rows
    tokens: Rows


def sample_views(
    first: ViewSide,
    second: ViewSide,
    sampling: Sampling,
    most_tokens: int,
    *,
    seed: int,
    number: int,
    purpose: Purpose = "training",
) -> tuple[View, View]:
    """Sample a view of both documents of a pair.

    Sentences are chosen until their tokens fill the view; none twice, and the last one is cut where it is too long. A
    sample depends on the seed, the pair and the number of the view alone; the same pair in the other order gives the
    same views in the other order.

    Args:
        first: one document.
        second: the other one.
        sampling: how sentences are chosen.
        most_tokens: tokens of a view of one document, without special tokens.
        seed: seed of the views.
        number: number of the view.
        purpose: what it is sampled for.
    """
    subtopics = int(max(first.clusters.max(initial=-1), second.clusters.max(initial=-1))) + 1
    counts = {side: np.bincount(side.clusters, minlength=subtopics).astype(np.int64) for side in (first, second)}
    views = []
    for side, other in ((first, second), (second, first)):
        rng = random_generator(seed, purpose, side.id, other.id, number)
        kept, room = dict[int, int](), most_tokens
        for sentence in sampling(Choice(side, counts[side], counts[other], most_tokens, rng)):
            kept[sentence] = min(int(side.tokens[sentence]), room)
            room -= kept[sentence]
            if room <= 0:
                break
        order = sorted(kept)
        views.append(View(np.array(order, np.int64), np.array([kept[sentence] for sentence in order], np.int64)))
    return views[0], views[1]
