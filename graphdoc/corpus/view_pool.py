"""Views of the pairs of a corpus, drawn once and read memory-mapped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from ..matching.matcher import DrawnPair, ViewDrawer, ViewPair
from ..matching.reader import FieldTokens, SentenceFeatures, SpecialTokens
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from ..runtime.workers import work_ahead
from ..sampling.views import SentenceLikelihoods, View
from ..segmentation.terms import TermMaker
from ..subtopics.subtopics import Subtopics
from ..version import __version__
from .corpus import TrainingCorpus
from .parts import Parts

Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
# Gives the sentences of documents by their rows, each once.
TextsOf = Callable[[Rows], Iterable[tuple[int, Sequence[str]]]]

FORMAT_VERSION = 1
# Pairs of one part: a minute of work to lose to an interruption.
PART_PAIRS = 1024
# Pairs that are drawn together, and from how many on in processes of their own.
BLOCK_PAIRS = 32
MANY_PAIRS = 512


class ViewPool:
    """Subtopics and views of pairs, memory-mapped.

    It may be given to the workers of a data loader; each maps the files anew.

    Args:
        folder: a folder that :func:`prepare_view_pool` filled.
        pairs: number of pairs.
        views: views of every pair.

    Raises:
        OutputError: a part is missing or damaged.
    """

    def __init__(self, folder: Path, pairs: int, views: int) -> None:
        self.folder = folder
        self.views_of_pair = views
        self._pairs = pairs
        self._parts = record_parts(folder, pairs)
        for number in range(_part_count(pairs)):
            self._parts.open(number)

    def __len__(self) -> int:
        """Number of pairs."""
        return self._pairs

    def __reduce__(self) -> tuple[Any, ...]:
        return ViewPool, (self.folder, self._pairs, self.views_of_pair)

    def subtopics(self, pair: int) -> Subtopics:
        """The subtopics of a pair."""
        record = self._record(pair)
        first, second = record[:2].tolist()
        return Subtopics(np.array(record[2 : 2 + first + second], np.int32), first)

    def view(self, pair: int, number: int) -> ViewPair:
        """A view of a pair.

        Args:
            pair: number of the pair.
            number: number of the view.
        """
        if not 0 <= number < self.views_of_pair:
            raise IndexError(f"view {number} of {self.views_of_pair}")
        record = self._record(pair)
        place = 2 + int(record[0]) + int(record[1])
        sides = []
        for side in range(2 * number + 2):
            count = int(record[place])
            if side >= 2 * number:
                sides.append(
                    View(
                        record[place + 1 : place + 1 + count].astype(np.int64),
                        record[place + 1 + count : place + 1 + 2 * count].astype(np.int64),
                    )
                )
            place += 1 + 2 * count
        return ViewPair(*sides)

    def _record(self, pair: int) -> Numbers:
        if not 0 <= pair < self._pairs:
            raise IndexError(f"pair {pair} of {self._pairs}")
        part, own = divmod(pair, PART_PAIRS)
        numbers = self._parts[part]
        first, last = numbers[own : own + 2].tolist()
        return numbers[first:last]


def record_parts(folder: Path, pairs: int) -> Parts:
    """The parts of a pool of views."""

    def check(number: int, numbers: npt.NDArray[Any]) -> None:
        count = _pairs_of_part(number, pairs)
        if numbers.dtype != np.int32 or numbers[0] != count + 1 or numbers[count] != len(numbers):
            raise ValueError("records of other pairs")

    return Parts(folder, check)


@dataclass(frozen=True)
class _Shared:
    """What drawing needs: whatever it takes of the documents, by row."""

    drawer: ViewDrawer
    rows: Rows
    fields: Mapping[int, FieldTokens]
    features: Mapping[int, Any]
    numbers: range
    # By row, where views are ordered by it.
    likelihoods: Mapping[int, SentenceLikelihoods] | None = None


def prepare_view_pool(
    corpus: TrainingCorpus,
    rows: Rows,
    drawer: ViewDrawer,
    special: SpecialTokens,
    views: int,
    texts_of: TextsOf,
    features_of: SentenceFeatures,
    processes: Processes | None = None,
    *,
    is_ordered: bool = False,
    workers: int = 0,
    show_progress: bool | None = None,
) -> ViewPool:
    """Find the subtopics of all pairs and draw their views, or open what an earlier run has made.

    The pool lies in a folder inside the corpus, in parts that are written atomically; a run that was interrupted goes
    on at the first part that is missing. What is drawn does not depend on the number of processes.

    Args:
        corpus: the documents, cut into sentences.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
        drawer: finds subtopics and draws views.
        special: special tokens of the tokenizer.
        views: views of every pair.
        texts_of: gives the sentences of documents.
        features_of: makes what subtopics are found by, of the sentences of a document.
        processes: the processes of the job, which divide the parts among themselves; None for one.
        is_ordered: put those views of a pair first that are likely given both documents, or leave them as drawn.
        workers: processes that draw, of each process of the job.
        show_progress: show a bar in pairs; None shows it on a terminal when the work is long.

    Returns:
        The pool.

    Raises:
        OutputError: the pool cannot be written, or another process has stopped.
    """
    folder = corpus.folder / f"views-{_fingerprint(corpus, rows, drawer, views, is_ordered, features_of.identity)}"
    rank, count = (processes.rank, processes.count) if processes is not None else (0, 1)
    missing = record_parts(folder, len(rows)).missing(range(rank, _part_count(len(rows)), count))
    if missing:
        wanted = np.unique(np.concatenate([rows[_range_of(part, len(rows))] for part in missing]))
        fields = {
            row: FieldTokens.of(example.id, example.token_ids, drawer.settings.receptive_field, special)
            for row in wanted.tolist()
            for example in [corpus[row]]
        }
        features: dict[int, Any] = {}
        likelihoods: dict[int, SentenceLikelihoods] | None = {} if is_ordered else None
        terms = TermMaker(drawer.language)
        shown = show_progress if rank == 0 else False
        with progress_bar(shown, len(wanted), doing="Reading sentences") as bar:
            for row, texts in texts_of(wanted):
                features[row] = features_of(texts[: len(fields[row])])
                if likelihoods is not None:
                    placed = [[one.term for one in terms.placed(text)] for text in texts]
                    likelihoods[row] = SentenceLikelihoods.of(placed)
                bar.update(1)
        shared = _Shared(drawer, rows, fields, features, range(views), likelihoods)
        _fill(folder, shared, missing, workers, shown)
    if processes is not None:
        processes.gather(None)
    return ViewPool(folder, len(rows), views)


def _fill(folder: Path, shared: _Shared, missing: Sequence[int], workers: int, show_progress: bool | None) -> None:
    pairs = len(shared.rows)
    store = record_parts(folder, pairs)
    blocks = [
        range(first, min(first + BLOCK_PAIRS, part.stop))
        for part in (_range_of(number, pairs) for number in missing)
        for first in range(part.start, part.stop, BLOCK_PAIRS)
    ]
    left = sum(_pairs_of_part(part, pairs) for part in missing)
    parts, waiting = iter(missing), []
    part = next(parts)
    with progress_bar(show_progress, left, doing="Drawing views", unit="pairs") as bar:
        # A model does not go into forked processes, and uses the cores by itself.
        forked = left >= MANY_PAIRS and not shared.drawer.finder.reads_model
        for records in work_ahead(_draw_block, shared, blocks, workers if forked else 0):
            waiting += records
            bar.update(len(records))
            if len(waiting) == _pairs_of_part(part, pairs):
                store.write(part, _joined(waiting))
                part, waiting = next(parts, -1), []


def _draw_block(shared: _Shared, block: Sequence[int]) -> list[Numbers]:
    # Small matrices gain nothing from threads, which would fight over the cores of other processes.
    with threadpool_limits(1):
        return [_record_of(_draw(shared, pair)) for pair in block]


def _draw(shared: _Shared, pair: int) -> DrawnPair:
    first, second = shared.rows[pair].tolist()
    drawn = shared.drawer.draw(
        (shared.fields[first], shared.features[first]),
        (shared.fields[second], shared.features[second]),
        shared.numbers,
        "training",
    )
    if shared.likelihoods is None:
        return drawn
    sides = shared.likelihoods[first], shared.likelihoods[second]
    found = [sum(side.of_view(view.sentences) for side, view in zip(sides, one, strict=True)) for one in drawn.views]
    order = sorted(range(len(found)), key=lambda number: -found[number])
    return DrawnPair(drawn.subtopics, tuple(drawn.views[number] for number in order))


def _record_of(drawn: DrawnPair) -> Numbers:
    """A pair as numbers: sentences of both documents, their subtopics, and every view of either."""
    subtopics = drawn.subtopics
    parts: list[npt.ArrayLike] = [[subtopics.first, len(subtopics.clusters) - subtopics.first], subtopics.clusters]
    for views in drawn.views:
        for view in views:
            parts += [[len(view.sentences)], view.sentences, view.tokens]
    return np.concatenate(parts).astype(np.int32)


def _joined(records: Sequence[Numbers]) -> Numbers:
    """Records one after the other, behind the places where they begin and end."""
    lengths = np.array([len(record) for record in records], np.int64)
    ends = len(records) + 1 + np.concatenate([[0], np.cumsum(lengths)])
    return np.concatenate([ends, *records]).astype(np.int32)


def _fingerprint(
    corpus: TrainingCorpus, rows: Rows, drawer: ViewDrawer, views: int, is_ordered: bool, features: str
) -> str:
    """Hash of everything that views depend on."""
    settings = drawer.settings
    # What the model of subtopics is called does not matter, but its weights, which features has a hash of.
    inference_alone = ("encoder", "views", "aggregation", "together", "view_tokens", "subtopic_model")
    made_of = {
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "corpus": corpus.fingerprint,
        "settings": {name: value for name, value in settings.as_values().items() if name not in inference_alone},
        "room": drawer.room,
        "views": views,
        "order": "likelihood" if is_ordered else "drawn",
        "features": features,
    }
    content = json.dumps(made_of, sort_keys=True).encode() + np.ascontiguousarray(rows, np.int64).tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _part_count(pairs: int) -> int:
    return -(-pairs // PART_PAIRS)


def _range_of(part: int, pairs: int) -> slice:
    return slice(part * PART_PAIRS, min((part + 1) * PART_PAIRS, pairs))


def _pairs_of_part(part: int, pairs: int) -> int:
    own = _range_of(part, pairs)
    return int(own.stop - own.start)
