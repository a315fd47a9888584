"""What a search finds, as other libraries take it: texts with an id, a score and metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, Unpack, get_args

from ..documents.document import Document
from ..errors import SettingsError
from ..retrieval.index import DocumentIndex
from ..retrieval.results import Hit, PassageHit
from ..retrieval.search import BY_PASSAGES, SearchOptions, SearchSettings
from ..runtime.text import require_one_of

Content = Literal["passage", "passages", "document"]

_GAP = "\n\n"


@dataclass(frozen=True, slots=True)
class FoundText:
    """A text that a search found.

    Args:
        id: id of the document, with ``#`` and its number behind it for a single passage.
        document: id of the document.
        text: the text.
        score: score of the document.
        metadata: what else is known, as plain values: ``id``, ``title``, ``rank``, ``score`` and ``parts`` of the
            document, its columns of metadata, and where its passages stand. A column of one of these names has ``_``
            behind it.
        passage: number of the passage, where the text is a single one.
    """

    id: str
    document: str
    text: str
    score: float
    metadata: dict[str, Any]
    passage: int | None = None


def require_search(content: Content, k: int, **settings: Unpack[SearchOptions]) -> None:
    """Refuse settings that no search can be made with.

    Raises:
        SettingsError: a value is unknown or out of range.
    """
    require_one_of("content", content, get_args(Content))
    require_one_of("by", settings.get("by", "hybrid"), BY_PASSAGES)
    if SearchSettings(k=k, **settings).passages == 0 and content != "document":
        raise SettingsError(f"passages is 0 and content is {content!r}; take 1 or more, or content='document'")


def search_texts(
    index: DocumentIndex, query: str, content: Content, k: int, **settings: Unpack[SearchOptions]
) -> list[FoundText]:
    """Search an index, and give texts, best first.

    Args:
        index: the index.
        query: words or a question.
        content: what a text is: ``passage`` for one of the best passages of a document, ``passages`` for all of these
            in reading order, ``document`` for the whole document.
        k: documents wanted.
        **settings: as for :meth:`DocumentIndex.search`.

    Raises:
        SettingsError: the query is empty, the filter cannot be read, or a setting is out of range.
        RetrievalError: the index cannot be read.
    """
    require_search(content, k, **settings)
    return [text for hit in index.search(query, k, **settings) for text in _texts_of(index, hit, content)]


def section_starts(document: Document) -> list[int]:
    r"""Where the text of each section begins in the text of a document.

    >>> document = Document.from_markdown("Tides rise.\n\n## Neap\n\nThey rise less.")
    >>> [document.text[start:] for start in section_starts(document)]
    ['Tides rise.\n\nThey rise less.', 'They rise less.']
    """
    lengths = (len(section.text) + len(_GAP) if section.text else 0 for section in document.sections)
    return list(accumulate(lengths, initial=0))[:-1]


def _texts_of(index: DocumentIndex, hit: Hit, content: Content) -> Iterator[FoundText]:
    whole = {
        "id": hit.id,
        "title": hit.title,
        "rank": hit.rank,
        "score": hit.score,
        "parts": hit.to_dict()["parts"],
    }
    if content == "passage":
        for passage in hit.passages:
            metadata = _joined(hit.metadata, whole | _place_of(passage))
            yield FoundText(f"{hit.id}#{passage.number}", hit.id, passage.text, hit.score, metadata, passage.number)
        return
    passages = sorted(hit.passages, key=lambda one: one.number)
    metadata = _joined(hit.metadata, whole | {"passages": [_place_of(passage) for passage in passages]})
    text = index.document(hit.id).text if content == "document" else _GAP.join(one.text for one in passages)
    yield FoundText(hit.id, hit.id, text, hit.score, metadata)


def _place_of(passage: PassageHit) -> dict[str, Any]:
    return {name: value for name, value in passage.to_dict().items() if name not in ("text", "matches")}


def _joined(columns: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of metadata of a document, and our own values behind them."""
    found: dict[str, Any] = {}
    for name, value in columns.items():
        while name in own or name in found:
            name += "_"
        found[name] = value
    return found | dict(own)
