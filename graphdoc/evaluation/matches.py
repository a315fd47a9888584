"""Scores of pairs of documents by a model that matches them view by view."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

import numpy as np
import numpy.typing as npt

from ..encoder import DocumentEncoder
from ..inference.precision import Precision
from ..inference.segmenting import Workers, segment_in_order
from ..matching.drawing import MANY_PAIRS, draw_in_order
from ..matching.matcher import DrawnPair, PairDocument, PairMatcher
from ..runtime.processes import Processes
from ..runtime.progress import progress_bar
from .evaluator import gathered
from .labels import ReadyDocument, plain_document

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Drawn = tuple[int, PairDocument, PairDocument, DrawnPair]


class MatchedPairs:
    """Pairs whose views are drawn once, however many models of the same views are measured on them.

    Args:
        documents: the documents, segmented or not.
        rows: ``(pairs, 2)``, rows of both documents of every pair.
    """

    def __init__(self, documents: Sequence[ReadyDocument], rows: Rows) -> None:
        self._documents, self._rows = documents, rows
        self._drawn: tuple[object, list[Drawn]] | None = None

    def scores(
        self,
        encoder: DocumentEncoder,
        processes: Processes | None = None,
        *,
        dtype: Precision | None = None,
        show_progress: bool | None = None,
    ) -> Floats:
        """Match all pairs; each process takes its share.

        Args:
            encoder: the encoder; its model was trained on views.
            processes: the processes that share the work; None for this one alone.
            dtype: precision that the transformer computes in; None is that of its weights.
            show_progress: show a bar in pairs; None shows it on a terminal when the work is long.

        Returns:
            ``(pairs,)``, in every process.
        """
        matcher = PairMatcher(encoder)
        rank, count = (processes.rank, processes.count) if processes is not None else (0, 1)
        own = range(rank, len(self._rows), count)
        found = np.empty(len(own))
        with (
            progress_bar(show_progress, len(own), doing="Matching", unit="pairs") as bar,
            closing(self._draw(matcher, encoder, own)) as drawn,
        ):
            for place, scores in matcher.view_scores(drawn, dtype):
                found[place] = matcher.aggregate(scores)
                bar.update(1)
        result = np.empty(len(self._rows))
        for number, part in enumerate(gathered(processes, found)):
            result[number::count] = part
        return result

    def _draw(self, matcher: PairMatcher, encoder: DocumentEncoder, own: range) -> Generator[Drawn]:
        """The pairs of this process with their views, drawn with the first model of such views."""
        drawn_by = encoder.model.config.views, encoder.tokenizer.get_vocab(), matcher.identity
        if self._drawn is not None and self._drawn[0] == drawn_by:
            yield from self._drawn[1]
            return
        wanted = np.unique(self._rows[own.start :: own.step]).tolist()
        plain = (plain_document(self._documents[row]) for row in wanted)
        # Workers end with an error, not when its traceback is forgotten.
        with closing(segment_in_order(plain, matcher.segmenter, Workers.on(encoder.device))) as cut:
            ready = dict(zip(wanted, matcher.documents(cut), strict=True))
        rows = self._rows[own.start :: own.step].tolist()
        pairs = ((place, ready[first], ready[second]) for place, (first, second) in enumerate(rows))
        drawn: list[Drawn] = []
        with closing(draw_in_order(matcher, pairs, Workers.on(encoder.device, after=MANY_PAIRS))) as ahead:
            for one in ahead:
                drawn.append(one)
                yield one
        self._drawn = (drawn_by, drawn)
