"""What is served, whatever the way: searches, documents and comparisons, within limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from ..errors import SettingsError
from ..retrieval.index import DocumentIndex
from ..retrieval.results import SearchResults
from ..retrieval.search import By


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may ask for.

    Args:
        query_characters: longest query.
        documents: most documents found by one search.
        passages: most passages shown of each.
        filter_characters: longest filter.
    """

    query_characters: int = 10_000
    documents: int = 100
    passages: int = 10
    filter_characters: int = 1_000


class SearchService:
    """Searches an index for others; it reads the index and nothing else.

    Args:
        index: the index.
        limits: what a request may ask for.
    """

    def __init__(self, index: DocumentIndex, limits: Limits | None = None) -> None:
        self.index, self.limits = index, limits or Limits()

    def search(
        self,
        query: str | None = None,
        *,
        document: str | None = None,
        k: int = 10,
        by: str = "hybrid",
        where: str | None = None,
        passages: int = 3,
    ) -> SearchResults:
        """Find documents by a text, or by a document of the index.

        Raises:
            SettingsError: both or neither are given, or one exceeds a limit.
            RetrievalError: the index does not have the document.
        """
        if (query is None) == (document is None):
            raise SettingsError("give either a query or the id of a document")
        for name, value, most in (
            ("the query", query, self.limits.query_characters),
            ("the filter", where, self.limits.filter_characters),
        ):
            if value is not None and len(value) > most:
                raise SettingsError(f"{name} has {len(value):,} characters, of {most:,} at most; shorten it")
        for name, number, most in (("k", k, self.limits.documents), ("passages", passages, self.limits.passages)):
            if number > most:
                raise SettingsError(f"{name}={number} is more than {most}, the most that is served; ask for less")
        if by not in get_args(By):
            raise SettingsError(f"by is {by!r}; choose one of {', '.join(get_args(By))}")
        asked = query if document is None else self.index.document(document)
        assert asked is not None
        return self.index.search(asked, k, by=by, where=where or None, passages=passages)  # type: ignore[arg-type]

    def document(self, id: str) -> dict[str, Any]:
        """A document of the index, with its sections and metadata.

        Raises:
            RetrievalError: the index does not have it.
        """
        return self.index.document(id).to_dict()

    def comparison(self, a: str, b: str) -> str:
        """The report of the comparison of two documents of the index, a page.

        Raises:
            RetrievalError: the index does not have one of them.
        """
        first, second = (self.index.encoded(id) for id in (a, b))
        return self.index.encoder.compare(first, second).to_html()

    def describe(self) -> dict[str, Any]:
        """What is served."""
        return self.index.describe()
