"""Points of Qdrant in a collection of a server, which many processes read (qdrant-client)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from ..errors import MissingExtraError, RetrievalError
from .qdrant_conditions import Filter
from .qdrant_points import Point, WordQuery, said

TIMEOUT_SECONDS = 60


class ServerPoints:
    """Points in a collection.

    A server answers only for its collection; it keeps several writers from one another no more than an object store
    does. The key of the server comes from the variable ``QDRANT_API_KEY``.

    Args:
        client: reaches the server.
        collection: name of the collection.
        place: as people named it, for messages.
    """

    def __init__(self, client: Any, collection: str, place: str) -> None:
        self._client, self._collection, self._place = client, collection, place
        self._models = _library().models

    @classmethod
    def create(cls, place: str, vectors: Mapping[str, int]) -> ServerPoints:
        """Make an empty collection for points with vectors of some lengths, compared by their dot product."""
        made = cls._at(place)
        sizes = {
            name: made._models.VectorParams(size=size, distance=made._models.Distance.DOT, on_disk=True)
            for name, size in vectors.items()
        }
        # One whose making was cut short has nothing in it.
        if made._is_there():
            made._do("delete_collection")
        made._do("create_collection", vectors_config=sizes, on_disk_payload=True)
        return made

    @classmethod
    def open(cls, place: str) -> ServerPoints | None:
        """A collection; None where there is none of this name."""
        found = cls._at(place)
        return found if found._is_there() else None

    @classmethod
    def _at(cls, place: str) -> ServerPoints:
        shown = f"qdrant:{place}"
        address = urlsplit(place if not place.startswith("//") else f"http:{place}")
        collection = address.path.strip("/")
        if address.scheme not in ("http", "https") or not address.hostname or not collection or "/" in collection:
            raise RetrievalError(
                f"{shown} names no collection of a server; write it like qdrant://host:6333/collection"
            )
        client = said(
            shown,
            lambda: _library().QdrantClient(
                url=f"{address.scheme}://{address.netloc}",
                api_key=os.environ.get("QDRANT_API_KEY"),
                timeout=TIMEOUT_SECONDS,
                check_compatibility=False,
            ),
        )
        return cls(client, collection, shown)

    def index(self, column: str, kind: str) -> None:
        """Make a column quick to filter by, or to search."""
        schema = (
            self._models.TextIndexParams(type="text", tokenizer="whitespace", lowercase=False, scoring=True)
            if kind == "words"
            else self._models.PayloadSchemaType(kind)
        )
        self._do("create_payload_index", field_name=column, field_schema=schema, wait=True)

    def upsert(self, points: Sequence[Point]) -> None:
        """Put points, in the place of those that have the same id."""
        made = [
            self._models.PointStruct(id=point.id, vector=dict(point.vectors), payload=dict(point.payload))
            for point in points
        ]
        self._do("upsert", points=made, wait=True)

    def set_payload(self, payload: Mapping[str, Any], where: Filter) -> None:
        """Change columns of all points that meet a filter."""
        self._do("set_payload", payload=dict(payload), points=self._filter(where), wait=True)

    def delete(self, where: Filter) -> None:
        """Remove all points that meet a filter."""
        self._do("delete", points_selector=self._models.FilterSelector(filter=self._filter(where)), wait=True)

    def one(self, id: str) -> Mapping[str, Any] | None:
        """The columns of a point; None where it is not there."""
        found = self._do("retrieve", ids=[id], with_payload=True, with_vectors=False)
        return (found[0].payload or {}) if found else None

    def some(
        self, where: Filter, columns: Sequence[str], vectors: Sequence[str], most: int, start: str | None
    ) -> tuple[list[Point], str | None]:
        """Points that meet a filter, in the order of their ids from one on, and the id that comes next."""
        found, after = self._do(
            "scroll",
            scroll_filter=self._filter(where),
            limit=most,
            offset=start,
            with_payload=list(columns),
            with_vectors=list(vectors) or False,
        )
        return [Point(str(one.id), one.payload or {}, one.vector or {}) for one in found], after and str(after)

    def nearest(
        self, query: Sequence[float] | WordQuery, column: str, where: Filter, most: int, columns: Sequence[str]
    ) -> list[tuple[Mapping[str, Any], float]]:
        """The best points by a vector or by words, with their scores."""
        asked: Any = query
        if isinstance(query, WordQuery):
            scoring = self._models.Bm25Scoring(bm25=self._models.Bm25Params(k=query.k1, b=query.b))
            asked = self._models.TextQuery(text=self._models.TextQueryInput(query=query.terms, scoring=scoring))
        found = self._do(
            "query_points",
            query=asked,
            using=column,
            query_filter=self._filter(where),
            limit=most,
            with_payload=list(columns),
            search_params=self._models.SearchParams(hnsw_ef=2 * most),
        )
        return [(one.payload or {}, one.score) for one in found.points]

    def count(self, where: Filter) -> int:
        """Points that meet a filter."""
        return int(self._do("count", count_filter=self._filter(where), exact=True).count)

    def values(self, column: str, where: Filter, most: int) -> list[str]:
        """The different values of a keyword column."""
        found = self._do("facet", key=column, facet_filter=self._filter(where), limit=most, exact=True)
        return [hit.value for hit in found.hits]

    def optimize(self) -> None:
        """A server builds its search structures by itself."""

    def finished(self) -> ServerPoints:
        """A collection is looked for where it was made."""
        return self

    def _is_there(self) -> bool:
        return bool(self._do("collection_exists"))

    def _do(self, name: str, **values: Any) -> Any:
        return said(self._place, partial(getattr(self._client, name), self._collection, **values))

    def _filter(self, where: Filter) -> Any:
        return self._models.Filter.model_validate(where)


def _library() -> Any:
    try:
        import qdrant_client
    except ImportError as error:
        raise MissingExtraError("qdrant_client", "qdrant", "keep an index in Qdrant") from error
    return qdrant_client
