"""An index as a retriever of LangChain."""

from __future__ import annotations

from typing import Any, Unpack

from ..errors import MissingExtraError
from ..retrieval.index import DocumentIndex
from ..retrieval.search import PassageScoring, SearchOptions
from .retrievers import Content, require_search, search_texts

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
except ImportError as error:
    raise MissingExtraError(error.name or "langchain_core", "interop", "search from LangChain") from error


class GraphdocRetriever(BaseRetriever):  # type: ignore[misc]
    """Finds documents in an index, in chains of LangChain.

    ``invoke``, ``ainvoke`` and ``batch`` take these values for one call, too: ``retriever.invoke("tides", top_k=3)``.

    Settings are those of :meth:`DocumentIndex.search`, and ``content``, what a result holds: ``passages`` for the best
    passages of a document in reading order, ``passage`` for each of them on its own, ``document`` for its whole text.

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    index: DocumentIndex
    top_k: int = 10
    by: PassageScoring = "hybrid"
    where: str | None = None
    passages: int = 3
    content: Content = "passages"

    def model_post_init(self, context: Any, /) -> None:
        """Refuse settings that no search can be made with."""
        super().model_post_init(context)
        require_search(self.content, self.top_k, by=self.by, where=self.where, passages=self.passages)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        top_k: int | None = None,
        content: Content | None = None,
        **settings: Unpack[SearchOptions],
    ) -> list[Document]:
        options: SearchOptions = {"by": self.by, "where": self.where, "passages": self.passages}
        options.update(settings)
        wanted = self.top_k if top_k is None else top_k
        texts = search_texts(self.index, query, content or self.content, wanted, **options)
        return [Document(text.text, id=text.id, metadata=text.metadata) for text in texts]
