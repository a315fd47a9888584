"""An index as a component of Haystack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ..encoder import DocumentEncoder
from ..errors import MissingExtraError
from ..retrieval.index import DocumentIndex
from ..retrieval.search import By
from .found_texts import Content, require_search, search_texts
from .haystack_filters import condition_of

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise MissingExtraError(error.name or "haystack", "interop", "search from Haystack") from error


@component  # type: ignore[untyped-decorator, unused-ignore]
class GraphDocRetriever:
    """Finds documents in an index, in pipelines of Haystack.

    A pipeline that is written down holds the place of the index and the name of the model, nothing else of them. Load
    it with ``Pipeline.loads(text, allowed_modules=["graphdoc.*"])``.

    Args:
        index: the index, or its folder or address; that is opened when it is needed first.
        model: name or folder of the model that the index was made with, where it lies elsewhere than it lay then.
        top_k: documents wanted.
        by: ``hybrid``, ``words`` or ``vectors``.
        where: a filter over the columns of the index, such as ``year >= 2010``; it holds beside those of a run.
        passages: best passages of each document.
        content: what a result holds: ``passages`` for the best passages of a document in reading order, ``passage``
            for each of them on its own, ``document`` for the whole text.

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    def __init__(
        self,
        index: DocumentIndex | str | Path,
        *,
        model: str | None = None,
        top_k: int = 10,
        by: By = "hybrid",
        where: str | None = None,
        passages: int = 3,
        content: Content = "passages",
    ) -> None:
        require_search(content, top_k, by=by, where=where, passages=passages)
        self._index = index if isinstance(index, DocumentIndex) else None
        self.place = index.place if isinstance(index, DocumentIndex) else str(index)
        self.model, self.top_k, self.by, self.where = model, top_k, by, where
        self.passages, self.content = passages, content

    def warm_up(self) -> None:
        """Open the index.

        Raises:
            RetrievalError: there is none.
            ModelError: the model cannot be loaded, or is another one.
        """
        if self._index is None:
            encoder = None if self.model is None else DocumentEncoder.from_pretrained(self.model)
            self._index = DocumentIndex.open(self.place, encoder)

    def to_dict(self) -> dict[str, Any]:
        """The component as plain values."""
        values: dict[str, Any] = default_to_dict(
            self,
            index=self.place,
            model=self.model,
            top_k=self.top_k,
            by=self.by,
            where=self.where,
            passages=self.passages,
            content=self.content,
        )
        return values

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GraphDocRetriever:
        """Make the component from the values of :meth:`to_dict`."""
        made: GraphDocRetriever = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator, unused-ignore]
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Find documents.

        Args:
            query: words or a question.
            top_k: documents wanted, in place of the component's own.
            filters: a filter as Haystack writes it.

        Returns:
            ``documents``, best first.

        Raises:
            SettingsError: the query is empty, the filter cannot be read, or a number is out of range.
            RetrievalError: the index cannot be read.
        """
        self.warm_up()
        assert self._index is not None
        conditions = [self.where] if self.where else []
        if filters:
            conditions.append(condition_of(filters))
        found = search_texts(
            self._index,
            query,
            self.content,
            self.top_k if top_k is None else top_k,
            by=self.by,
            where=" AND ".join(f"({one})" for one in conditions) or None,
            passages=self.passages,
        )
        return {"documents": [Document(text.id, text.text, meta=text.metadata, score=text.score) for text in found]}

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator, unused-ignore]
    async def run_async(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """As :meth:`run`, in a thread of its own."""
        return await asyncio.to_thread(self.run, query, top_k, filters)
