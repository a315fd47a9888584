"""What the HTML report shows of a comparison: the two documents, and the matches between them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...documents.section import PATH_CHARACTERS
from ...errors import OutputError
from ...registry import SIMILARITIES
from ...runtime.text import section_name
from ...similarity.kinds import similarity_of
from ..pages.page import finite, number

# A map of more cells would make the file larger than a mail attachment may be; the matches of that level stay.
MAP_CELLS = 600_000
# Levels of which a long document has any number of parts.
_UNBOUNDED = ("paragraphs", "sentences")

LISTED_MATCHES = 200
LISTED_WORDS = 12

# Below it, a share of the document score says nothing.
_SMALLEST_DIVISIBLE_SCORE = 0.01


def script_data(
    comparison: Mapping[str, Any], levels: Mapping[str, LevelMatrices], sides: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what the page's script needs and cannot read from the page: matrices and which part is in which."""
    left_out = maps_left_out(comparison)
    return {
        "document": finite(comparison.get("document")),
        "self": bool(comparison.get("self")),
        "levels": {name: packed_level(level) for name, level in levels.items() if name not in left_out},
        "documents": {
            side["key"]: {
                "labels": [section["label"] for section in side["sections"]],
                "passages": [passage["section"] for passage in side["passages"]],
                "sentences": side["passage_of_sentence"],
                **({"paragraphs": side["paragraphs"]} if side["paragraphs"] else {}),
            }
            for side in sides
        },
    }


def maps_left_out(comparison: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of cells of every level whose map would make the file too large."""
    cells = {
        name: len(comparison["a"].get(name) or ()) * len(comparison["b"].get(name) or ())
        for name in _UNBOUNDED
        if comparison.get(name) is not None
    }
    return {name: count for name, count in cells.items() if count > MAP_CELLS}


def read_side(letter: str, comparison: Mapping[str, Any], similarity: Mapping[str, Matrix]) -> dict[str, Any]:
    """Return what the page shows of one document.

    Args:
        letter: ``A`` or ``B``.
        comparison: the payload.
        similarity: matrices by level, (parts of this document, parts of the other).
    """
    key = letter.lower()
    document = comparison[key]
    score = finite(comparison.get("document"))
    sentences = document.get("sentences") or ()
    passage_of_sentence = _passages_of_sentences(sentences, document["passages"])
    sentences_of: dict[int, list[tuple[int, Mapping[str, Any]]]] = {}
    for index, (sentence, passage_index) in enumerate(zip(sentences, passage_of_sentence, strict=True)):
        sentences_of.setdefault(passage_index, []).append((index, sentence))
    passages = [
        {
            "index": index,
            "section": passage["section"],
            "pieces": list(_pieces(passage, sentences_of.get(index, ()))),
            "excerpt": _excerpt(passage["text"]),
            "best": _best(similarity.get("passages"), index),
        }
        for index, passage in enumerate(document["passages"])
    ]
    sections: list[dict[str, Any]] = []
    # A document whose outermost headings are of level 2 is shown like one that starts at level 1.
    outermost = min((_depth(section) - len(_ancestors(section)) for section in document["sections"]), default=1)
    open_path: tuple[str, ...] = ()
    coverage = (comparison.get("coverage") or {}).get(key)
    is_whole = len(document["sections"]) == 1 and not any(map((coverage or {}).get, ("left_out", "empty_sections")))
    for index, section in enumerate(document["sections"]):
        heading = section.get("heading") or ""
        contribution = finite(section.get("contribution"))
        sections.append(
            {
                "index": index,
                "heading": heading,
                "label": section_name(heading, section.get("number", index), 1 if is_whole else 2),
                "depth": min(6, _depth(section) - outermost + 1),
                "new_ancestors": list(_new_ancestors(_ancestors(section), open_path)),
                "passages": [passage for passage in passages if passage["section"] == index],
                "contribution": contribution,
                "share": share_of(contribution, score),
                "attention": finite(section.get("attention")),
                "best": _best(similarity.get("sections"), index),
            }
        )
        open_path = tuple(section.get("path") or (heading,))
    return {
        "key": key,
        "letter": letter,
        "id": document.get("id", ""),
        "title": document.get("title") or document.get("id") or f"Document {letter}",
        "sections": sections,
        "passages": passages,
        "largest_contribution": max((abs(section["contribution"] or 0.0) for section in sections), default=0.0),
        "has_attention": any(section["attention"] is not None for section in sections),
        "coverage": coverage,
        "sentences": [sentence["text"] for sentence in sentences],
        "passage_of_sentence": passage_of_sentence,
        # The first sentence of every paragraph, and one past the last.
        "paragraphs": [paragraph["sentences"] for paragraph in document.get("paragraphs") or ()],
    }


def _ancestors(section: Mapping[str, Any]) -> tuple[str, ...]:
    path = tuple(section.get("path") or ())
    own = (section.get("heading") or "")[:PATH_CHARACTERS].rstrip()
    return path[:-1] if path and path[-1] == own else path


def _depth(section: Mapping[str, Any]) -> int:
    """Depth of a heading; a path that is longer than the level says wins, since its headings are shown as well."""
    return max(1, int(section.get("level") or 1), len(_ancestors(section)) + 1)


def _new_ancestors(ancestors: Sequence[str], open_path: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Headings without text of their own that open before a section: they have no section of their own."""
    is_open = True
    for depth, text in enumerate(ancestors):
        is_open = is_open and depth < len(open_path) and open_path[depth] == text
        if not is_open and text:
            yield {"text": text, "depth": depth + 1}


def _passages_of_sentences(sentences: Sequence[Mapping[str, Any]], passages: Sequence[Mapping[str, Any]]) -> list[int]:
    """The passage in which most of every sentence stands; one longer than the encoder's limit stands in several."""
    by_section: dict[int, list[int]] = {}
    for index, passage in enumerate(passages):
        by_section.setdefault(passage["section"], []).append(index)

    def overlap(sentence: Mapping[str, Any], index: int) -> int:
        passage = passages[index]
        return int(min(passage["end"], sentence["end"]) - max(passage["start"], sentence["start"]))

    def place(sentence: Mapping[str, Any]) -> int:
        return max(by_section[sentence["section"]], key=lambda index: overlap(sentence, index))

    return [place(sentence) for sentence in sentences]


def _pieces(
    passage: Mapping[str, Any], sentences: Sequence[tuple[int, Mapping[str, Any]]]
) -> Iterator[tuple[int | None, str]]:
    """Cut a passage's text at its sentences, whose spans count from the start of the section like its own."""
    text, position = passage["text"], 0
    for index, sentence in sentences:
        start = max(position, sentence["start"] - passage["start"])
        end = min(len(text), sentence["end"] - passage["start"])
        if start >= end:
            continue
        if start > position:
            yield None, text[position:start]
        yield index, text[start:end]
        position = end
    if position < len(text):
        yield None, text[position:]


def _best(matrix: Matrix | None, row: int) -> dict[str, Any] | None:
    if matrix is None or not matrix.shape[1] or np.isnan(matrix[row]).all():
        return None
    column = int(np.nanargmax(matrix[row]))
    return {"index": column, "score": float(matrix[row, column])}


def read_matches(
    comparison: Mapping[str, Any], level: str, a: Mapping[str, Any], b: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the strongest matches of a level, every pair once, with the headings and first words of both ends."""
    listed, seen = [], set()
    for match in comparison["matches"][level]:
        row, column = match["a"], match["b"]
        # Within one document a pair and its mirror image are the same pair, and a part is trivially like itself.
        pair = (min(row, column), max(row, column)) if comparison.get("self") else (row, column)
        if pair in seen or (comparison.get("self") and row == column):
            continue
        seen.add(pair)
        contribution = finite(match.get("contribution"))
        listed.append(
            {
                "a": end_of_pair(level, row, a),
                "b": end_of_pair(level, column, b),
                "score": finite(match.get("score")),
                "contribution": contribution,
                "share": share_of(contribution, finite(comparison.get("document"))),
            }
        )
    return {"total": len(listed), "listed": listed[:LISTED_MATCHES]}


def end_of_pair(level: str, index: int, side: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a list shows one part of a pair: its number, its section, its first words and where it stands.

    Args:
        level: ``sections``, ``passages``, ``paragraphs`` or ``sentences``.
        index: the part.
        side: what the page shows of its document.
    """
    if level == "sections":
        section = side["sections"][index]
        excerpt = section["passages"][0]["excerpt"] if section["passages"] else ""
        return {"index": index, "label": section["label"], "excerpt": excerpt, "anchor": f"{side['key']}-s{index + 1}"}
    first, last = side["paragraphs"][index] if level == "paragraphs" else (index, index + 1)
    passage_index = index if level == "passages" else side["passage_of_sentence"][first]
    passage = side["passages"][passage_index]
    excerpt = passage["excerpt"] if level == "passages" else _excerpt(" ".join(side["sentences"][first:last][:9]))
    label = side["sections"][passage["section"]]["label"]
    return {"index": index, "label": label, "excerpt": excerpt, "anchor": f"{side['key']}-p{passage_index + 1}"}


def meaning_of_score(comparison: Mapping[str, Any], passages: Matrix | None) -> dict[str, str]:
    """Return on what scale the document score lies and how the passages of this very pair score."""
    similarity = str((comparison.get("model") or {}).get("similarity", ""))
    scale = f"{similarity or 'Similarity'} of the two document vectors."
    if similarity in SIMILARITIES:
        scale = similarity_of(similarity).meaning
    if comparison.get("self"):
        scale = (
            f"A document against itself, so this score says nothing; look for parts that repeat each other. {scale}"
        )
    if passages is None:
        return {"scale": scale, "orientation": ""}
    values = passages[np.triu_indices_from(passages, k=1)] if comparison.get("self") else passages.ravel()
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return {"scale": scale, "orientation": ""}
    low, middle, high = (number(float(value), 2) for value in (values.min(), np.median(values), values.max()))
    orientation = (
        f"For orientation: the {len(values):,} pairs of passages here score from {low} to {high}, half below {middle}."
    )
    return {"scale": scale, "orientation": orientation}


def read_words(comparison: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how much of the document score words that both share make up, and which; None without a lexical part."""
    found = comparison.get("lexical")
    if found is None or finite(found.get("score")) is None:
        return None
    words = [
        {"word": str(one["word"]), "contribution": finite(one["contribution"])}
        for one in found["words"][:LISTED_WORDS]
    ]
    score = float(found["score"])
    return {"score": score, "share": share_of(score, finite(comparison.get("document"))), "words": words}


def share_of(contribution: float | None, score: float | None) -> float | None:
    """Return which part of a score a contribution is; nothing of a score too small to be divided."""
    if contribution is None or score is None or abs(score) < _SMALLEST_DIVISIBLE_SCORE:
        return None
    return contribution / score


def _excerpt(text: str, characters: int = 190) -> str:
    line = " ".join(text[: 4 * characters].split())
    if len(line) <= characters:
        return line
    cut = line[:characters].rpartition(" ")[0] or line[:characters]
    return cut.rstrip(" ,;:–-") + " …"


LEVELS = ("sections", "passages", "paragraphs", "sentences")

# More cells in all heads and directions would make the file larger than a mail attachment may be; their mean stays.
ATTENTION_CELLS = 800_000

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReportAttention:
    """Chunkwise attention between the passages of the two documents, as the map shows it.

    Args:
        heads: heads of the model.
        matrices: by direction, ``to_b`` (A's passages look) and ``to_a`` (B's look; not within one document), a
            matrix per head, (passages of the first document, passages of the second) in both. One matrix for more
            heads is their mean.
    """

    heads: int
    matrices: Mapping[str, Sequence[Matrix]]

    @property
    def has_heads(self) -> bool:
        """Whether every head can be shown, and there is more than one."""
        return self.heads > 1 and len(self.matrices["to_b"]) == self.heads


@dataclass(frozen=True, slots=True)
class LevelMatrices:
    """The matrices of one level, rows for the first document and NaN where there is no value.

    Args:
        similarity: (parts of the first document, parts of the second).
        contribution: of the same shape, or ``None`` when the comparison has none.
        attention: between passages, or ``None`` at other levels and for models without it.
    """

    similarity: Matrix
    contribution: Matrix | None
    attention: ReportAttention | None = None


def read_levels(comparison: Mapping[str, Any]) -> dict[str, LevelMatrices]:
    """Return the matrices of every level that the comparison has; within one document without their diagonal.

    Raises:
        OutputError: a matrix does not fit its documents, or is none.
    """
    contributions = comparison.get("contributions") or {}
    levels = {}
    for name in LEVELS:
        if comparison.get(name) is None:
            continue
        shape = (len(comparison["a"].get(name) or ()), len(comparison["b"].get(name) or ()))
        similarity = _matrix(comparison[name], shape, name)
        contribution = None if contributions.get(name) is None else _matrix(contributions[name], shape, name)
        if comparison.get("self"):
            for matrix in (similarity, contribution):
                if matrix is not None:
                    np.fill_diagonal(matrix, np.nan)
        attention = _attention(comparison, shape) if name == "passages" else None
        levels[name] = LevelMatrices(similarity, contribution, attention)
    return levels


def _attention(comparison: Mapping[str, Any], shape: tuple[int, int]) -> ReportAttention | None:
    """Attention of passages to passages; within one document that between its consecutive sections."""
    found = comparison.get("attention")
    if not found or not found["heads"] or not all(shape):
        return None
    if comparison.get("self"):
        within = [_matrix(head, shape, "attention") for head in found["a"]]
        for head in within:
            # Passages of sections that do not follow each other cannot see each other, which is no weight of 0.
            head[head == 0] = np.nan
            np.fill_diagonal(head, np.nan)
        matrices = {"to_b": within}
    else:
        matrices = {
            "to_b": [_matrix(head, shape, "attention") for head in found["a_to_b"]],
            "to_a": [_matrix(head, shape[::-1], "attention").T for head in found["b_to_a"]],
        }
    if sum(map(len, matrices.values())) * shape[0] * shape[1] > ATTENTION_CELLS:
        matrices = {direction: [np.mean(heads, axis=0)] for direction, heads in matrices.items()}
    return ReportAttention(int(found["heads"]), matrices)


def _matrix(values: Any, shape: tuple[int, int], name: str) -> Matrix:
    try:
        matrix = np.array(values, dtype=np.float64).reshape(len(values), -1) if len(values) else np.empty(shape)
    except (TypeError, ValueError) as error:
        raise OutputError(f"the {name} of the comparison are no matrix of numbers ({error}); compare again") from error
    if matrix.shape != shape:
        raise OutputError(
            f"the {name} of the comparison have shape {matrix.shape} where the documents have {shape}; compare again"
        )
    matrix[~np.isfinite(matrix)] = np.nan
    return matrix


def _packed(matrix: Matrix | None, step: float | None = None) -> dict[str, Any] | None:
    """A matrix in two bytes a cell: 90,000 cells take 240 kB where decimals in JSON would take three times that.

    Values are rounded to multiples of a step; without one, or where it is too fine for the largest value, to the
    finest that two bytes hold.
    """
    if matrix is None:
        return None
    finite_values = matrix[~np.isnan(matrix)]
    largest = float(np.abs(finite_values).max()) if finite_values.size else 0.0
    if step is None or largest > 32_000 * step:
        step = largest / 32_000 or 1.0
    cells = np.where(np.isnan(matrix), -32_768, np.rint(np.nan_to_num(matrix) / step)).astype("<i2")
    return {"step": step, "values": base64.b64encode(cells.tobytes()).decode("ascii")}


def packed_level(level: LevelMatrices) -> dict[str, Any]:
    """Return the matrices of a level as the page's script reads them."""
    attention = level.attention
    return {
        "rows": level.similarity.shape[0],
        "columns": level.similarity.shape[1],
        "similarity": _packed(level.similarity, step=1e-4),
        "contribution": _packed(level.contribution),
        "attention": None
        if attention is None
        else {
            "heads": attention.heads,
            **{direction: [_packed(head) for head in heads] for direction, heads in attention.matrices.items()},
        },
    }
