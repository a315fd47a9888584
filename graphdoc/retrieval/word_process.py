"""Word search of a corpus in a process of its own, so that the process that trains can be forked without risk.

What LanceDB starts in a process does not go together with processes that are forked later, as data loaders are. The
two processes send each other JSON, a line for every message.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from ..errors import GraphdocError, RetrievalError
from ..segmentation.spans import SegmentedDocument
from .candidates import Row, index_words, word_rows, word_scores
from .grouping import Scores

_ENDED = "the process that searches words was ended from outside, perhaps for want of memory; run again"


class WordProcess:
    """A process that indexes the words of documents and searches them; use it as a context.

    Args:
        place: where its index is made.
        language: language of the documents, as a two-letter code.
    """

    def __init__(self, place: Path, language: str) -> None:
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(place), language],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="ascii",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        # It ends when nothing more can come.
        self._process.communicate()

    def index(self, documents: Iterable[SegmentedDocument]) -> int:
        """Index documents, each with a passage at least, and give their number.

        Raises:
            RetrievalError: it cannot be done.
        """
        for segmented in documents:
            self._send(word_rows(segmented))
        self._send(None)
        return int(self._receive()["documents"])

    def scores(self, query: str, positives: Sequence[str], depth: int) -> Scores:
        """Scores of documents for a query (see :func:`~graphdoc.retrieval.candidates.word_scores`).

        Raises:
            RetrievalError: it cannot be done.
        """
        self._send({"query": query, "positives": list(positives), "depth": depth})
        return dict(self._receive()["scores"])

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, message)
        except BrokenPipeError:
            # What it has to say comes before it ends.
            self._receive()
            raise RetrievalError(_ENDED) from None

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RetrievalError(_ENDED)
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            raise RetrievalError(message["error"])
        return message


def serve(place: str, language: str, given: IO[str], answers: IO[str]) -> None:
    """Index the documents that are given, then answer queries until there are no more.

    Args:
        place: where the index is made.
        language: language of the documents.
        given: rows of documents, ``null``, then queries, each in a line.
        answers: where answers go.
    """
    try:
        index = index_words(_documents(given), language, place)
        _write(answers, {"documents": len(index)})
        for line in given:
            asked = json.loads(line)
            scores = word_scores(index, {"": asked["query"]}, asked["depth"])
            _write(answers, {"scores": scores("", asked["positives"])})
    except GraphdocError as error:
        _write(answers, {"error": str(error)})


def _documents(given: IO[str]) -> Iterator[list[Row]]:
    while rows := json.loads(given.readline() or "null"):
        yield rows


def _write(file: IO[str], message: Any) -> None:
    file.write(json.dumps(message) + "\n")
    file.flush()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.stdin, sys.stdout)
