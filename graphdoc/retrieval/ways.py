"""The ways to search an index, by their names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..errors import SettingsError
from ..runtime.text import one_line, require_one_of, require_whole
from .lance import LanceStore, State
from .query import Query, Statistics, query_of
from .results import Hit, SearchResults
from .search import By, Search, SearchOptions, SearchSettings
from .sentence_search import SentenceSearch, require_document
from .sentence_settings import BY_SENTENCES, SentenceOptions, SentenceSettings

# Rows that came after the last maintenance, as a share of all, from which on it is due.
_DUE = 0.05


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search needs of an index.

    Args:
        store: its rows.
        encoder: gives its encoder when it is needed.
        statistics: how common terms are.
        place: where it lies, for messages.
    """

    store: LanceStore
    encoder: Callable[[], DocumentEncoder]
    statistics: Statistics
    place: str

    def query(self, value: object) -> Query:
        """A text or a document as words and as a vector."""
        return query_of(value, self.store, self.encoder, self.statistics)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, and how it was made.

    Args:
        hits: the documents, best first.
        query: text, id and title of what was asked for.
        settings: how it was searched.
        fusion: how rankings were joined; None where there was one.
        warnings: what the reader should know.
    """

    hits: tuple[Hit, ...]
    query: Mapping[str, Any]
    settings: SearchSettings | SentenceSettings
    fusion: str | None
    warnings: tuple[str, ...]


def by_passages(index: Searched, query: str | Document, k: int, options: Mapping[str, Any]) -> Found:
    """Search by words and vectors of passages, or of documents."""
    settings = SearchSettings(k=k, **options)
    asked = index.query(query)
    hits = Search(index.store, asked, settings).run() if index.store.state().documents else ()
    fusion = settings.fusion if settings.by == "hybrid" else None
    shown = {"text": asked.shown, "document": asked.id, "title": asked.title}
    warnings = [*asked.warnings]
    if "words" in settings.rankings and not index.store.tokens(asked.text):
        warnings.append("no word of the query is searched for: all are stop words or signs")
    return Found(hits, shown, settings, fusion, tuple(warnings))


def by_sentences(index: Searched, query: str | Document, k: int, options: Mapping[str, Any]) -> Found:
    """Rank documents by their sentences."""
    settings = SentenceSettings(k=k, **options)
    source = require_document(query, settings.by)
    search = SentenceSearch(index.store, index.encoder, source, lambda: index.query(source), settings, index.place)
    hits = search.run() if index.store.state().documents else ()
    shown = {"text": source.text, "document": source.id, "title": source.title}
    return Found(hits, shown, settings, "weighted" if settings.words else None, tuple(search.warnings))


@dataclass(frozen=True, slots=True)
class Way:
    """A way to search.

    Args:
        search: makes the search.
        options: names of its settings.
    """

    search: Callable[[Searched, str | Document, int, Mapping[str, Any]], Found]
    options: Collection[str]


_PASSAGES = Way(by_passages, SearchOptions.__annotations__)
_SENTENCES = Way(by_sentences, SentenceOptions.__annotations__)
WAYS: dict[str, Way] = {**dict.fromkeys(get_args(By), _PASSAGES), **dict.fromkeys(BY_SENTENCES, _SENTENCES)}


def way_of(options: Mapping[str, Any]) -> Way:
    """The way that options ask for.

    Raises:
        SettingsError: there is none of this name, or an option belongs to another one.
    """
    by = options.get("by", "hybrid")
    require_one_of("by", by, tuple(WAYS))
    way = WAYS[by]
    for name, value in options.items():
        owners = [other for other, one in WAYS.items() if name in one.options]
        if owners and name not in way.options:
            raise SettingsError(
                f"{name}={one_line(repr(value), 60)} does not go with by={by!r}; leave it out, or search by "
                f"{', '.join(owners)}"
            )
    return way


def search_index(index: Searched, query: str | Document, k: int, options: Mapping[str, Any]) -> SearchResults:
    """Search an index in the way that options ask for, and say what the reader should know."""
    require_whole("k", k, may_be_none=False)
    found = way_of(options).search(index, query, k, options)
    state, where = index.store.state(), found.settings.where
    warnings = [*found.warnings]
    if is_due(state):
        warnings.append(
            f"maintenance is due: {state.waiting:,} of {state.rows:,} rows came after the last one (maintain)"
        )
    if not state.documents:
        warnings.append("the index is empty")
    elif not found.hits:
        warnings.append("nothing was found" + (f" where {where}" if where else ""))
    sizes = about(index.store, state, index.place)
    return SearchResults(found.hits, found.query, found.settings.by, found.fusion, where, k, sizes, tuple(warnings))


def about(store: LanceStore, state: State, place: str) -> dict[str, Any]:
    """Place, size and model of an index as plain values."""
    model = dict(store.record["model"])
    return {"place": place, "documents": state.documents, "passages": state.passages, "model": model}


def is_due(state: State) -> bool:
    """Whether maintenance is due."""
    return state.waiting > _DUE * state.rows
