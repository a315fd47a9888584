"""What a search finds: documents with the parts of their scores, their best passages, and why they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ..analysis.pages.search import search_page
from ..analysis.report.page import render_report
from ..runtime.files import JsonResult, write_text
from ..similarity.comparison import Comparison
from ..similarity.hierarchical import SENTENCE_SCORINGS
from .alignments import ALIGNMENT_COLUMNS, HitAlignment

if TYPE_CHECKING:
    import pandas as pd

_HIT_COLUMNS = ("rank", "id", "title", "score")
_PASSAGE_COLUMNS = ("passage", "heading", "start", "end", "text")


@dataclass(frozen=True, slots=True)
class Part:
    """What one ranking gives a document: its rank, from 1, its score there, and its share in the fused score."""

    rank: int
    score: float
    share: float


class TermContribution(NamedTuple):
    """What a term, the word as the query has it, adds to the score of word search.

    ``frequency`` is how often the passages or the document that were scored hold it, ``document_frequency`` how many
    passages or documents of the index do, of a query document estimated from 2,000.
    """

    term: str
    frequency: int
    document_frequency: int
    contribution: float

    def __str__(self) -> str:
        times = "once" if self.frequency == 1 else f"{self.frequency} times"
        return f"{self.term} ({times}; in {self.document_frequency:,})"


class PassageContribution(NamedTuple):
    """What a passage adds to the score of vector search."""

    number: int
    heading: str
    contribution: float

    def __str__(self) -> str:
        return f"passage {self.number + 1}" + (f" ({self.heading})" if self.heading else "")


@dataclass(frozen=True, slots=True)
class Explanation:
    """The score of a document, taken apart: what terms and passages add to those of its parts, largest first."""

    id: str
    score: float
    parts: Mapping[str, Part]
    words: tuple[TermContribution, ...] = ()
    vectors: tuple[PassageContribution, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Terms and passages as plain values."""
        return {name: [part._asdict() for part in getattr(self, name)] for name in ("words", "vectors")}

    def __str__(self) -> str:
        lines = [f"{self.id}: {self.score:.4f}"]
        for name, ranking in self.parts.items():
            lines.append(f"  {name}: rank {ranking.rank}, score {ranking.score:.3f}, share {ranking.share:.4f}")
            parts: Sequence[TermContribution | PassageContribution] = getattr(self, name, ())
            lines += [f"    {part}: {part.contribution:+.3f}" for part in parts]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class PassageHit:
    """A passage of a document that was found: its section, where it lies in the text of that, and its scores, if any.

    ``matches`` are where words of the query stand in it, as first and one past the last character.
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


@dataclass(frozen=True)
class Hit:
    """A document that was found, with its best passages and what else the index holds of it.

    The score is the sum of the shares of its ``parts``, what each ranking that found it gives; ``explain`` computes
    the terms, passages and ranks that it is made of. Hits of equal score share a ``rank``. ``cut`` characters of the
    document lie beyond the passage limit and are not in the index.
    """

    rank: int
    id: str
    title: str
    score: float
    parts: Mapping[str, Part]
    passages: tuple[PassageHit, ...]
    metadata: Mapping[str, Any]
    explain: Callable[[], Explanation] = field(repr=False, compare=False)
    aligned: Callable[[], HitAlignment] | None = field(default=None, repr=False, compare=False)
    cut: int = 0

    @cached_property
    def alignment(self) -> HitAlignment | None:
        """Which paragraphs and sentences of the hit are like which of the query document, adding up to the score.

        None where the search was not by sentences.
        """
        return None if self.aligned is None else self.aligned()

    def to_dict(self, *, explain: bool = False, excerpt: bool = False) -> dict[str, Any]:
        """Everything as plain values.

        Args:
            explain: whether the explanation is among them.
            excerpt: whether the alignment is cut to what a page shows of it.
        """
        aligned = self.alignment
        return {
            "rank": self.rank,
            "id": self.id,
            "title": self.title,
            "score": self.score,
            "cut": self.cut,
            "metadata": dict(self.metadata),
            "parts": {name: asdict(part) for name, part in self.parts.items()},
            "passages": [asdict(passage) for passage in self.passages],
            "alignment": aligned and (aligned.excerpt() if excerpt else aligned.to_dict()),
            "explanation": self.explain().to_dict() if explain else None,
        }


@dataclass(frozen=True)
class SearchResults(JsonResult):
    """The documents that a search found, best first, with what was asked for: of how many, by what, and where.

    ``query`` has its text, id and title, ``index`` path, size and model; ``fusion`` is None for one ranking.
    """

    hits: tuple[Hit, ...]
    query: Mapping[str, Any]
    by: str
    fusion: str | None
    where: str | None
    top_k: int
    index: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]

    def __repr__(self) -> str:
        shown = ", ".join(f"{hit.id}: {hit.score:.3f}" for hit in self.hits[:3])
        return f"SearchResults({len(self)} by {self.by}: {shown}{', ...' if len(self) > 3 else ''})"

    def to_frame(self) -> pd.DataFrame:
        """One row per document and passage shown, or per document and pair of its alignment (:attr:`columns`)."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of :meth:`to_frame`: of the document, its rank and score in each ranking, and of each row."""
        rankings = "words", self.by if self.by in SENTENCE_SCORINGS else "vectors"
        parts = [f"{name}_{value}" for name in rankings for value in ("rank", "score")]
        return (*_HIT_COLUMNS, *parts, *(ALIGNMENT_COLUMNS if self.by in SENTENCE_SCORINGS else _PASSAGE_COLUMNS))

    def rows(self) -> list[dict[str, Any]]:
        """The rows of :meth:`to_frame` as dictionaries."""
        rows = []
        for hit in self.hits:
            shared: dict[str, Any] = {name: getattr(hit, name) for name in _HIT_COLUMNS}
            for name, part in hit.parts.items():
                shared |= {f"{name}_rank": part.rank, f"{name}_score": part.score}
            if hit.alignment is None:
                passages = [asdict(passage) for passage in hit.passages]
                parts = [{"passage": values["number"], **values} for values in passages]
            else:
                parts = list(hit.alignment.rows())
            every = [shared | part for part in parts or [{}]]
            rows += [{name: values.get(name) for name in self.columns} for values in every]
        return rows

    def to_dict(self, *, explain: bool = False, excerpt: bool = False) -> dict[str, Any]:
        """Everything as plain values, the content of the JSON file (see :meth:`Hit.to_dict`)."""
        return {
            "query": dict(self.query),
            **{name: getattr(self, name) for name in ("by", "fusion", "where", "top_k")},
            "index": dict(self.index),
            "warnings": list(self.warnings),
            "hits": [hit.to_dict(explain=explain, excerpt=excerpt) for hit in self.hits],
        }

    def to_html(
        self, path: str | Path, *, explain: bool = True, compare: Callable[[Hit], Comparison] | None = None
    ) -> Path:
        """Write the results as a page to read and click through, one file that needs no network.

        Args:
            path: the HTML file.
            explain: whether every hit carries its explanation.
            compare: compares the query document with a hit (``DocumentIndex.comparer``); each hit then leads to
                the report of that, in a folder beside the page (:func:`report_paths`).

        Raises:
            OutputError: a file cannot be written.
        """
        content = self.to_dict(explain=explain, excerpt=True)
        if compare is not None:
            for hit, shown, report in zip(self, content["hits"], report_paths(path, len(self)), strict=True):
                write_text(report, render_report(compare(hit).to_dict()))
                shown["comparison"] = f"{quote(report.parent.name)}/{report.name}"
        return write_text(path, search_page(content))


def report_paths(path: str | Path, count: int) -> list[Path]:
    """The comparison reports of hits beside their page: ``hits-comparisons/001.html`` for ``hits.html``."""
    folder = Path(path).with_name(f"{Path(path).stem}-comparisons")
    return [folder / f"{rank:03d}.html" for rank in range(1, count + 1)]
