"""Hits as the retrievers of other libraries take them: texts with an id, a score and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Unpack, get_args

from ..retrieval.index import DocumentIndex
from ..retrieval.results import Hit
from ..retrieval.search import BY_PASSAGES, SearchOptions, SearchSettings
from ..runtime.text import require_one_of

Content = Literal["passage", "passages", "document"]


class FoundText(NamedTuple):
    """A text that a search found; the ``id`` of a passage is that of its ``document`` with ``#`` and its number.

    ``metadata`` are plain values: ``id``, ``title``, ``rank``, ``score`` and ``parts`` of the document, its columns of
    metadata, and where its passages stand. A column of one of these names has ``_`` behind it.
    """

    id: str
    document: str
    text: str
    score: float
    metadata: dict[str, Any]


def require_search(content: Content, top_k: int, **settings: Unpack[SearchOptions]) -> None:
    """Raise SettingsError for settings that no search can be made with."""
    require_one_of("content", content, get_args(Content))
    require_one_of("by", settings.get("by", "hybrid"), BY_PASSAGES)
    SearchSettings(top_k=top_k, **settings)


def search_texts(
    index: DocumentIndex, query: str, content: Content, top_k: int, **settings: Unpack[SearchOptions]
) -> list[FoundText]:
    """Search an index (:meth:`DocumentIndex.search`), and give texts, best first.

    ``content`` is ``passage`` for each of the best passages of a document, ``passages`` for all of these in reading
    order, ``document`` for its whole text.
    """
    require_search(content, top_k, **settings)
    return [text for hit in index.search(query, top_k, **settings) for text in _texts_of(index, hit, content)]


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
    return {f"{name}_" if name in values else name: value for name, value in hit.metadata.items()} | values
