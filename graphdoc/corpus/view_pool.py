"""Views of the pairs of a corpus, drawn once and read memory-mapped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..matching.matcher import ViewPair, ViewSampler
from ..matching.reader import ReceptiveField, SentenceFeatures, SpecialTokens
from ..runtime.arrays import Rows
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..runtime.workers import work_ahead
from ..sampling.views import SentenceLikelihoods, View
from ..segmentation.terms import TermMaker
from ..subtopics.subtopics import Subtopics
from ..version import __version__
from .corpus import TrainingCorpus
from .parts import MappedParts

Numbers = npt.NDArray[np.int32]
# Gives the sentences of documents by their rows, each once.
TextsOf = Callable[[Rows], Iterable[tuple[int, Sequence[str]]]]

FORMAT_VERSION = 1
# Pairs of one part: a minute of work to lose to an interruption.
PART_PAIRS = 1024
# Pairs that are drawn together, and the number from which on worker processes draw them.
BLOCK_PAIRS = 32
MANY_PAIRS = 512


class ViewPool(MappedParts):
    """Subtopics of pairs, and the views of each, memory-mapped (see :func:`prepare_view_pool`)."""

    def __init__(self, folder: Path, pairs: int, views: int) -> None:
        self.views_of_pair = views
        self._pairs = pairs
        super().__init__(folder, -(-pairs // PART_PAIRS))

    def __len__(self) -> int:
        return self._pairs

    def subtopics(self, pair: int) -> Subtopics:
        """The subtopics of a pair."""
        record = self._record(pair)
        first, second = record[:2].tolist()
        return Subtopics(np.array(record[2 : 2 + first + second], np.int32), first)

    def view(self, pair: int, number: int) -> ViewPair:
        """A view of a pair, both by their numbers."""
        if not 0 <= number < self.views_of_pair:
            raise IndexError(f"view {number} of {self.views_of_pair}")
        sides = islice(_views_in(self._record(pair)), 2 * number, 2 * number + 2)
        return ViewPair(*(View(*numbers.astype(np.int64)) for numbers in sides))

    def pairs_of(self, part: int) -> range:
        """The pairs of a part."""
        return range(part * PART_PAIRS, min((part + 1) * PART_PAIRS, self._pairs))

    def _record(self, pair: int) -> Numbers:
        if not 0 <= pair < self._pairs:
            raise IndexError(f"pair {pair} of {self._pairs}")
        part, place = divmod(pair, PART_PAIRS)
        numbers = self._mapped(part)
        first, last = numbers[place : place + 2].tolist()
        return numbers[first:last]

    def _check(self, number: int, array: npt.NDArray[Any]) -> None:
        count = len(self.pairs_of(number))
        if array.dtype != np.int32 or array[0] != count + 1 or array[count] != len(array):
            raise ValueError("records of other pairs")


def _views_in(record: Numbers) -> Iterator[Numbers]:
    """Sentences and tokens of either side of every view, each ``(2, sentences)``."""
    place = 2 + int(record[0]) + int(record[1])
    while place < len(record):
        end = place + 1 + 2 * int(record[place])
        yield record[place + 1 : end].reshape(2, -1)
        place = end


@dataclass(frozen=True)
class _Shared:
    """What drawing takes of the documents, by row; likelihoods where views are ordered by them."""

    sampler: ViewSampler
    rows: Rows
    fields: dict[int, ReceptiveField]
    features: dict[int, Any]
    views: int
    likelihoods: dict[int, SentenceLikelihoods]


def prepare_view_pool(
    corpus: TrainingCorpus,
    rows: Rows,
    sampler: ViewSampler,
    special: SpecialTokens,
    views: int,
    texts_of: TextsOf,
    features_of: SentenceFeatures,
    processes: Processes,
    *,
    is_ordered: bool = False,
    workers: int = 0,
    show_progress_bar: bool | None = None,
) -> ViewPool:
    """Find the subtopics of all pairs and draw their views, or open what an earlier run has made.

    The pool lies in a folder inside the corpus; a run that was interrupted goes on at the first part that is missing.
    What is drawn does not depend on the number of processes.

    Args:
        corpus: the documents, cut into sentences.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        sampler: finds subtopics and samples views.
        special: special tokens of the tokenizer.
        views: views of every pair.
        texts_of: gives the sentences of documents.
        features_of: makes what subtopics are found by, of the sentences of a document.
        processes: the processes of the job, which divide the parts among themselves.
        is_ordered: put those views of a pair first that are likely given both documents, or leave them as sampled.
        workers: processes that draw, of each process of the job.
        show_progress_bar: show a bar in pairs; None shows it on a terminal when the work is long.
    """
    # What the model of subtopics is called does not matter, but its weights, which the features have a hash of.
    inference_alone = ("encoder", "views", "aggregation", "joint", "view_tokens", "subtopic_model")
    made_of = {
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "corpus": corpus.fingerprint,
        "settings": {name: v for name, v in sampler.settings.as_values().items() if name not in inference_alone},
        "room": sampler.room,
        "views": views,
        "order": "likelihood" if is_ordered else "sampled",
        "features": features_of.identity,
    }
    content = json.dumps(made_of, sort_keys=True).encode() + np.ascontiguousarray(rows, np.int64).tobytes()
    folder = corpus.folder / f"views-{hashlib.blake2b(content, digest_size=16).hexdigest()}"
    pool = ViewPool(folder, len(rows), views)
    if missing := pool.missing(processes.rank, processes.count):
        shown = show_progress_bar if processes.is_first else False
        wanted = np.unique(np.concatenate([rows[pool.pairs_of(part)] for part in missing]))
        shared = _Shared(sampler, rows, {}, {}, views, {})
        terms = TermMaker(sampler.language)
        with progress_bar(shown, len(wanted), doing="Reading sentences") as bar:
            for row, texts in texts_of(wanted):
                example = corpus[row]
                size = sampler.settings.receptive_field
                shared.fields[row] = fields = ReceptiveField.from_tokens(example.id, example.token_ids, size, special)
                shared.features[row] = features_of(texts[: len(fields)])
                if is_ordered:
                    placed = [[occurrence.term for occurrence in terms.placed(text)] for text in texts]
                    shared.likelihoods[row] = SentenceLikelihoods.from_sentences(placed)
                bar.update(1)
        _fill(pool, shared, missing, workers, shown)
    processes.gather(None)
    return pool


def _fill(pool: ViewPool, shared: _Shared, missing: Sequence[int], workers: int, shown: bool | None) -> None:
    pairs = [pool.pairs_of(part) for part in missing]
    left = sum(map(len, pairs))
    blocks = (part[first : first + BLOCK_PAIRS] for part in pairs for first in range(0, len(part), BLOCK_PAIRS))
    # A model does not go into forked processes, and uses the cores by itself.
    forked = workers if left >= MANY_PAIRS and not shared.sampler.finder.reads_model else 0
    with progress_bar(shown, left, doing="Drawing views", unit="pairs") as bar:
        records = (record for block in work_ahead(_sample_block, shared, blocks, forked) for record in block)
        for number, part in zip(missing, pairs, strict=True):
            in_part = []
            for record in islice(records, len(part)):
                in_part.append(record)
                bar.update(1)
            # Records one after the other, behind the places where they begin and end.
            ends = len(part) + 1 + np.cumsum([0, *map(len, in_part)])
            pool.write(number, np.concatenate([ends, *in_part]).astype(np.int32))


def _sample_block(shared: _Shared, block: Sequence[int]) -> list[Numbers]:
    # Small matrices gain nothing from threads, which would fight over the cores of other processes.
    with threadpool_limits(1):
        return [_sample(shared, pair) for pair in block]


def _sample(shared: _Shared, pair: int) -> Numbers:
    """A pair as numbers: sentences of both documents, their subtopics, and every view of either."""
    first, second = shared.rows[pair].tolist()
    sides = [(shared.fields[document], shared.features[document]) for document in (first, second)]
    sampled = shared.sampler.sample(sides[0], sides[1], range(shared.views), "training")
    views = sampled.views
    if shared.likelihoods:
        by_side = shared.likelihoods[first], shared.likelihoods[second]
        likelihoods = [
            sum(side.of_view(view.sentences) for side, view in zip(by_side, pair_of_views, strict=True))
            for pair_of_views in views
        ]
        views = tuple(views[number] for number in np.argsort(-np.array(likelihoods), kind="stable"))
    subtopics = sampled.subtopics
    parts: list[npt.ArrayLike] = [[subtopics.first, len(subtopics.clusters) - subtopics.first], subtopics.clusters]
    for view in (view for pair_of_views in views for view in pair_of_views):
        parts += [[len(view.sentences)], view.sentences, view.tokens]
    return np.concatenate(parts).astype(np.int32)
