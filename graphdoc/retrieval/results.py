"""What a search finds: documents with the parts of their scores, their best passages, and why they were found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ..analysis.search_page.page import write_search_page
from ..runtime.files import write_text
from .alignments import OF_PAIRS, HitAlignment
from .fusion import Part

if TYPE_CHECKING:
    import pandas as pd

# How a pair is told from the best one for a paragraph of the query document.
FROM_THE_HIT = "best match of the hit's paragraph"
_BY_PASSAGES = ("hybrid", "words", "vectors")
_OF_HITS = ("rank", "id", "title", "score")
_OF_PASSAGES = ("passage", "heading", "start", "end", "text")


@dataclass(frozen=True, slots=True)
class TermPart:
    """What a term adds to the score of word search.

    Args:
        term: the word as the query has it.
        frequency: how often the passages (or the document) that were scored hold it.
        document_frequency: passages (or documents) of the index that hold it.
        part: its part of the score.
    """

    term: str
    frequency: int
    document_frequency: int
    part: float


@dataclass(frozen=True, slots=True)
class PassagePart:
    """What a passage adds to the score of vector search.

    Args:
        number: the passage.
        heading: heading of its section.
        part: its part of the score.
    """

    number: int
    heading: str
    part: float


@dataclass(frozen=True, slots=True)
class PairPart:
    """What a pair of paragraphs adds to the score by sentences.

    Args:
        source: paragraph of the query document.
        candidate: paragraph of the hit.
        source_heading: heading of its section.
        candidate_heading: heading of its section.
        part: its part of the score.
        direction: whether the paragraph of the ``source`` was looked for, or that of the ``candidate``.
    """

    source: int
    candidate: int
    source_heading: str
    candidate_heading: str
    part: float
    direction: Literal["source", "candidate"] = "source"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The score of a document, taken apart.

    Args:
        id: the document.
        score: its score, the sum of the shares of ``parts``.
        parts: rank, score and share of each ranking that found it.
        words: what terms add to the score of word search, largest first; they add up to it.
        vectors: what passages add to the score of vector search, largest first; they add up to it.
        sentences: what pairs of paragraphs add to the score by sentences, largest first; they add up to it.
    """

    id: str
    score: float
    parts: Mapping[str, Part]
    words: tuple[TermPart, ...]
    vectors: tuple[PassagePart, ...]
    sentences: tuple[PairPart, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Terms, passages and pairs of paragraphs as plain values."""
        return {name: [asdict(part) for part in getattr(self, name)] for name in ("words", "vectors", "sentences")}

    def __str__(self) -> str:
        lines = [f"{self.id}: {self.score:.4f}"]
        for name, ranking in self.parts.items():
            lines.append(f"  {name}: rank {ranking.rank}, score {ranking.score:.3f}, share {ranking.share:.4f}")
            parts: Sequence[TermPart | PassagePart | PairPart] = getattr(self, name, self.sentences)
            lines += [f"    {_part_name(part)}: {part.part:+.3f}" for part in parts]
        return "\n".join(lines)


def _part_name(part: TermPart | PassagePart | PairPart) -> str:
    if isinstance(part, PairPart):
        sides = ((part.source, part.source_heading), (part.candidate, part.candidate_heading))
        pair = " with ".join(f"paragraph {number + 1}" + (f" ({name})" if name else "") for number, name in sides)
        return pair + (f", {FROM_THE_HIT}" if part.direction == "candidate" else "")
    if isinstance(part, TermPart):
        times = "once" if part.frequency == 1 else f"{part.frequency} times"
        return f"{part.term} ({times}; in {part.document_frequency:,})"
    return f"passage {part.number + 1}" + (f" ({part.heading})" if part.heading else "")


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage of a document that was found.

    Args:
        number: its place among the passages of the document.
        section: its section.
        heading: heading of the section.
        start: first character in the text of the section.
        end: one past the last character.
        text: its text.
        words: its score in word search; None where that did not find it.
        vectors: its similarity to the query; None where vector search did not find it.
        matches: where in the text words of the query stand, as first and one past the last character.
    """

    number: int
    section: int
    heading: str
    start: int
    end: int
    text: str
    words: float | None
    vectors: float | None
    matches: tuple[tuple[int, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return values | {"matches": [list(match) for match in self.matches]}


@dataclass(frozen=True)
class Hit:
    """A document that was found.

    Args:
        rank: its place, from 1.
        id: its id.
        title: its title, empty when there is none.
        score: its score; the sum of the shares of its parts.
        parts: what each ranking that found it gives, ``words`` and ``vectors``.
        passages: its best passages.
        metadata: what else the index holds of it.
        explained: computes the explanation.
        aligned: computes the alignment; None where the search was not by sentences.
    """

    rank: int
    id: str
    title: str
    score: float
    parts: Mapping[str, Part]
    passages: tuple[PassageHit, ...]
    metadata: Mapping[str, Any]
    explained: Callable[[], Explanation] = field(repr=False, compare=False)
    aligned: Callable[[], HitAlignment] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def alignment(self) -> HitAlignment | None:
        """Which paragraphs and sentences of the hit are like which of the query document.

        Contributions of its pairs add up to the score by sentences. It is computed when it is asked for first, and
        None where the search was not by sentences.

        Raises:
            RetrievalError: the index cannot be read, or the document is no longer in it.
        """
        return None if self.aligned is None else self.aligned()

    def explain(self) -> Explanation:
        """What the score is made of: terms, passages and ranks; computed when asked for.

        Raises:
            RetrievalError: the index cannot be read, or the document is no longer in it.
        """
        return self.explained()

    def to_dict(self, *, explain: bool = False, excerpt: bool = False) -> dict[str, Any]:
        """Everything as plain values.

        Args:
            explain: whether the explanation is among them.
            excerpt: whether the alignment is cut to what a page shows of it
                (:meth:`~graphdoc.retrieval.alignments.HitAlignment.excerpt`).
        """
        aligned = self.alignment
        return {
            "rank": self.rank,
            "id": self.id,
            "title": self.title,
            "score": self.score,
            "metadata": dict(self.metadata),
            "parts": {
                name: {"rank": part.rank, "score": part.score, "share": part.share}
                for name, part in self.parts.items()
            },
            "passages": [passage.to_dict() for passage in self.passages],
            "alignment": aligned and (aligned.excerpt() if excerpt else aligned.to_dict()),
            "explanation": self.explain().to_dict() if explain else None,
            "comparison": None,
        }


@dataclass(frozen=True)
class SearchResults:
    """The documents that a search found, best first.

    Args:
        hits: the documents.
        query: text, id and title of what was asked for.
        by: what was searched by: ``hybrid``, ``words`` or ``vectors``, or by sentences ``sentences``, ``flat``,
            ``paragraphs`` or ``document``.
        fusion: how rankings were joined; None where there was one.
        where: the filter, if any.
        k: how many were asked for.
        index: place, size and model of the index.
        warnings: what the reader should know.
    """

    hits: tuple[Hit, ...]
    query: Mapping[str, Any]
    by: str
    fusion: str | None
    where: str | None
    k: int
    index: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[place]

    def __repr__(self) -> str:
        shown = ", ".join(f"{hit.id}: {hit.score:.3f}" for hit in self.hits[:3])
        return f"SearchResults({len(self)} by {self.by}: {shown}{', ...' if len(self) > 3 else ''})"

    def to_frame(self) -> pd.DataFrame:
        """One row per document and passage shown, or per document and pair of its alignment.

        Returns:
            ``rank``, ``id``, ``title``, ``score``, ``words_rank``, ``words_score``, ``vectors_rank``,
            ``vectors_score``, and of the passage ``passage``, ``heading``, ``start``, ``end``, ``text``. Of a search
            by sentences in place of vectors the rank and score by sentences, and in place of passages of every pair
            ``direction``, ``contribution``, ``similarity``, and paragraph, heading, sentence and text of ``source``
            and ``candidate``.
        """
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of :meth:`to_frame`."""
        parts = [f"{name}_{value}" for name in self._rankings for value in ("rank", "score")]
        return (*_OF_HITS, *parts, *(_OF_PASSAGES if self._is_of_passages else OF_PAIRS))

    def rows(self) -> list[dict[str, Any]]:
        """The rows of :meth:`to_frame` as dictionaries."""
        found = []
        for hit in self.hits:
            whole: dict[str, Any] = {name: getattr(hit, name) for name in _OF_HITS}
            for name in self._rankings:
                part = hit.parts.get(name)
                whole |= {f"{name}_rank": part and part.rank, f"{name}_score": part and part.score}
            aligned = hit.alignment
            rows = list(map(_passage_row, hit.passages) if aligned is None else aligned.rows())
            found += [{**dict.fromkeys(self.columns), **whole, **row} for row in rows or [{}]]
        return found

    @property
    def _is_of_passages(self) -> bool:
        return self.by in _BY_PASSAGES

    @property
    def _rankings(self) -> tuple[str, str]:
        return "words", "vectors" if self._is_of_passages else self.by

    def to_dict(self, *, explain: bool = False, excerpt: bool = False) -> dict[str, Any]:
        """Everything as plain values, the content of the JSON file.

        Args:
            explain: whether every hit carries its explanation.
            excerpt: whether alignments are cut to what a page shows of them, as its content is.
        """
        return {
            "query": dict(self.query),
            "by": self.by,
            "fusion": self.fusion,
            "where": self.where,
            "k": self.k,
            "index": dict(self.index),
            "warnings": list(self.warnings),
            "hits": [hit.to_dict(explain=explain, excerpt=excerpt) for hit in self.hits],
        }

    def to_html(self, path: str | Path, *, explain: bool = True) -> Path:
        """Write the results as a page to read and click through, one file that needs no network.

        Args:
            path: the HTML file.
            explain: whether every hit carries its explanation.

        Raises:
            OutputError: the file cannot be written.
        """
        return write_search_page(self.to_dict(explain=explain, excerpt=True), path)

    def to_json(self, path: str | Path, *, explain: bool = False) -> Path:
        """Write everything as JSON, atomically.

        Raises:
            OutputError: the file cannot be written.
        """
        content = json.dumps(self.to_dict(explain=explain), ensure_ascii=False, indent=2, allow_nan=False)
        return write_text(path, content + "\n")


def _passage_row(passage: PassageHit) -> dict[str, Any]:
    return {"passage": passage.number, **{name: getattr(passage, name) for name in _OF_PASSAGES[1:]}}
