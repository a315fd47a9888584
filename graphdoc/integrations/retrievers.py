"""What a search finds, as the retrievers of other libraries take it: texts with an id, a score and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Unpack, get_args

from ..retrieval.index import DocumentIndex
from ..retrieval.results import Hit
from ..retrieval.search import BY_PASSAGES, SearchOptions, SearchSettings
from ..runtime.text import require_one_of

Content = Literal["passage", "passages", "document"]


class FoundText(NamedTuple):
    """A text that a search found.

    Args:
        id: id of the document, with ``#`` and its number behind it for a single passage.
        document: id of the document.
        text: the text.
        score: score of the document.
        metadata: what else is known, as plain values: ``id``, ``title``, ``rank``, ``score`` and ``parts`` of the
            document, its columns of metadata, and where its passages stand. A column of one of these names has ``_``
            behind it.
    """

    id: str
    document: str
    text: str
    score: float
    metadata: dict[str, Any]


def require_search(content: Content, k: int, **settings: Unpack[SearchOptions]) -> None:
    """Raise SettingsError for settings that no search can be made with."""
    require_one_of("content", content, get_args(Content))
    require_one_of("by", settings.get("by", "hybrid"), BY_PASSAGES)
    SearchSettings(k=k, **settings)


def search_texts(
    index: DocumentIndex, query: str, content: Content, k: int, **settings: Unpack[SearchOptions]
) -> list[FoundText]:
    """Search an index, and give texts, best first.

    Args:
        index: the index.
        query: words or a question.
        content: ``passage`` for each of the best passages of a document, ``passages`` for all of these in reading
            order, ``document`` for its whole text.
        k: documents wanted.
        **settings: as for :meth:`DocumentIndex.search`.

    Raises:
        SettingsError: the query is empty, the filter cannot be read, or a setting is out of range.
        RetrievalError: the index cannot be read.
    """
    require_search(content, k, **settings)
    return [text for hit in index.search(query, k, **settings) for text in _texts_of(index, hit, content)]


def _texts_of(index: DocumentIndex, hit: Hit, content: Content) -> Iterator[FoundText]:
    values = hit.to_dict()
    whole = {name: values[name] for name in ("id", "title", "rank", "score", "parts")}
    texts = {passage["number"]: passage.pop("text") for passage in values["passages"]}
    places = [{name: value for name, value in place.items() if name != "matches"} for place in values["passages"]]
    if content == "passage":
        for place in places:
            number = place["number"]
            metadata = _with_columns(hit, whole | place)
            yield FoundText(f"{hit.id}#{number}", hit.id, texts[number], hit.score, metadata)
        return
    places.sort(key=lambda place: int(place["number"]))
    text = index.document(hit.id).text if content == "document" else "\n\n".join(texts[n] for n in sorted(texts))
    yield FoundText(hit.id, hit.id, text, hit.score, _with_columns(hit, whole | {"passages": places}))


def _with_columns(hit: Hit, values: dict[str, Any]) -> dict[str, Any]:
    """The columns of metadata of a document, and our own values behind them."""
    columns: dict[str, Any] = {}
    for name, value in hit.metadata.items():
        while name in values or name in columns:
            name += "_"
        columns[name] = value
    return columns | values
