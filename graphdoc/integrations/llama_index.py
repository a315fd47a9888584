"""An index as a retriever of LlamaIndex."""

from __future__ import annotations

import asyncio
from itertools import accumulate
from typing import Any

from ..errors import MissingExtraError
from ..retrieval.index import DocumentIndex
from ..retrieval.search import PassageScoring, SearchOptions
from .retrievers import Content, FoundText, require_search, search_texts

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import (
        NodeRelationship,
        NodeWithScore,
        ObjectType,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )
except ImportError as error:
    raise MissingExtraError(error.name or "llama_index", "interop", "search from LlamaIndex") from error

# What a language model is not shown of a node, since it only says how it was found.
_HIDDEN = (*("id", "rank", "score", "parts", "passages"), *("number", "section", "start", "end", "words", "vectors"))


class GraphdocRetriever(BaseRetriever):  # type: ignore[misc]
    """Finds passages or documents in an index, for query engines of LlamaIndex.

    A node knows its document (``ref_doc_id``) and where it stands in the text of that, ``Document.text``
    (``start_char_idx``, ``end_char_idx``).

    Settings are those of :class:`graphdoc.integrations.langchain.GraphdocRetriever`, with one node for each passage by
    default; ``settings`` go to the base class, such as ``callback_manager``.

    Raises:
        SettingsError: a value is unknown or out of range.
    """

    def __init__(
        self,
        index: DocumentIndex,
        *,
        top_k: int = 10,
        by: PassageScoring = "hybrid",
        where: str | None = None,
        passages: int = 3,
        content: Content = "passage",
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.index, self.top_k, self.content = index, top_k, content
        self.options: SearchOptions = {"by": by, "where": where, "passages": passages}
        require_search(content, top_k, **self.options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        texts = search_texts(self.index, query_bundle.query_str, self.content, self.top_k, **self.options)
        starts = {text.document: self._section_starts(text.document) for text in texts if self.content == "passage"}
        return [NodeWithScore(node=self._node(text, starts), score=text.score) for text in texts]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)

    def _section_starts(self, id: str) -> list[int]:
        """Where the text of each section begins in the text of a document, in which blank lines part them."""
        sections = self.index.document(id).sections
        return list(accumulate((len(section.text) + 2 if section.text else 0 for section in sections), initial=0))

    def _node(self, text: FoundText, starts: dict[str, list[int]]) -> TextNode:
        begin, end = (0, len(text.text)) if self.content == "document" else (None, None)
        if self.content == "passage":
            start = starts[text.document][text.metadata["section"]]
            begin, end = start + text.metadata["start"], start + text.metadata["end"]
        node = TextNode(id_=text.id, text=text.text, metadata=text.metadata, start_char_idx=begin, end_char_idx=end)
        source = RelatedNodeInfo(node_id=text.document, node_type=ObjectType.DOCUMENT)
        node.relationships = {NodeRelationship.SOURCE: source}
        hidden = [name for name in _HIDDEN if name in text.metadata]
        node.excluded_embed_metadata_keys = node.excluded_llm_metadata_keys = hidden
        return node
