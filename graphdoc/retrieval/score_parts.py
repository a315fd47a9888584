"""What the terms of a query and the passages of a document add to its score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from .explain import PassagePart, TermPart
from .fusion import Fused
from .grouping import BEST_PASSAGES
from .lance import LanceStore
from .rows import key_of, quoted
from .terms import unique_words

Unit = Literal["passage", "document"]
WordsUnit = Literal["passage", "document", "both"]
# Each way to search, the column it searches by what is ranked.
RANKINGS: dict[str, dict[str, str]] = {
    "words": {"passage": "text", "document": "document_text"},
    "vectors": {"passage": "passage_vector", "document": "document_vector"},
}


def terms_of(
    store: LanceStore, text: str, one: Fused, unit: WordsUnit, passages: Mapping[int, float]
) -> list[TermPart]:
    """What every term of a query adds to the score of word search, as the store itself counts it.

    Args:
        store: the index.
        text: the words of the query.
        one: the document; nothing is found where word search did not find it.
        unit: what words were searched in.
        passages: scores of its passages that were found.
    """
    if "words" not in one.parts:
        return []
    best = list(passages.items())[:BEST_PASSAGES]
    places: dict[Unit, list[str]] = {}
    if unit != "document" and best:
        places["passage"] = [key_of(one.id, "passage", number) for number, _ in best]
    # Of both, the whole document counts where word search found it too.
    if unit == "document" or one.parts["words"].score > sum(score for _, score in best):
        places["document"] = [key_of(one.id, "document", 0)]
    parts: dict[str, TermPart] = {}
    for place, keys in places.items():
        for part in _terms_in(store, text, RANKINGS["words"][place], keys):
            also = parts.get(part.term)
            parts[part.term] = part if also is None else replace(also, part=also.part + part.part)
    return list(parts.values())


def _terms_in(store: LanceStore, text: str, column: str, keys: Sequence[str]) -> list[TermPart]:
    """What terms add to the scores of some rows."""
    where = f"key IN ({', '.join(map(quoted, keys))})"
    rows = store.select([column], where).to_pylist()
    frequencies: dict[str, int] = {}
    for row in rows:
        for term in store.tokens(row[column] or ""):
            frequencies[term] = frequencies.get(term, 0) + 1
    state = store.state()
    parts = []
    for word in unique_words(text, store.tokens):
        if word.term not in frequencies:
            continue
        own = store.by_words(word.text, column, len(keys), where)
        everywhere = store.by_words(word.text, column, max(1, state.rows))
        part = word.count * float(own.scores.sum())
        parts.append(TermPart(word.text, frequencies[word.term], len(everywhere), part))
    return parts


def shares_of(
    store: LanceStore, vector: npt.NDArray[np.float32], one: Fused, unit: WordsUnit, passages: Mapping[int, float]
) -> list[PassagePart]:
    """What every passage adds to the score of vector search.

    Args:
        store: the index.
        vector: ``(hidden,)``, of the query.
        one: the document; nothing is found where vector search did not find it.
        unit: what vector search ranked.
        passages: scores of its passages that were found.
    """
    if "vectors" not in one.parts:
        return []
    if unit == "passage":
        best = dict(list(passages.items())[:BEST_PASSAGES])
        keys = ", ".join(quoted(key_of(one.id, "passage", number)) for number in best)
        headings = store.select(["number", "heading"], f"key IN ({keys})").to_pylist()
        names = {row["number"]: row["heading"] or "" for row in headings}
        return [PassagePart(number, names.get(number, ""), score) for number, score in best.items()]
    rows = store.select(["number", "heading", "share"], "level = 'passage'", ids=[one.id])
    shares = rows.column("share").combine_chunks().flatten().to_numpy().reshape(len(rows), -1).astype(np.float64)
    length = float(np.linalg.norm(vector)) if store.record["similarity"] == "cosine" else 1.0
    values = shares @ vector.astype(np.float64) / (length or 1.0)
    # Shares are kept in half precision; what rounding took is given back in proportion.
    lost = one.parts["vectors"].score - values.sum()
    values += lost * np.abs(values) / (np.abs(values).sum() or 1.0)
    numbers, headings = rows.column("number").to_pylist(), rows.column("heading").to_pylist()
    return [
        PassagePart(number, heading or "", value)
        for number, heading, value in zip(numbers, headings, values.tolist(), strict=True)
    ]
