"""The content of the report of a comparison: both documents, matches, the alignment, subtopics and words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...documents.section import PATH_CHARACTERS
from ...registry import SIMILARITIES
from ...runtime.text import one_line, section_name, unwrapped
from ...similarity.kinds import similarity_of

Matrix = NDArray[np.float64]
Side = Mapping[str, Any]

LISTED_MATCHES, LISTED_WORDS = 200, 12
# Of every pair of paragraphs. A document without headings is one paragraph with all of its sentences.
LISTED_SENTENCES = 100
# Below it, a share of the document score says nothing.
_SMALLEST_DIVISIBLE_SCORE = 0.01
_SCORES_BY_SENTENCES = {
    "sentences": "every paragraph with the best one, each of its sentences with the best one there",
    "flat": "every sentence with the best one of the other document, whatever its paragraph",
    "paragraphs": "every paragraph with the best one, as means of their sentences",
    "document": "both documents, as means of their sentences",
}
_EXCERPT = 190
_HOLDERS = {"both": "In both documents", "a": "Only in A", "b": "Only in B"}


def read_side(letter: str, comparison: Mapping[str, Any], similarity: Mapping[str, Matrix]) -> dict[str, Any]:
    """Return what the page shows of one document."""
    key = letter.lower()
    document, coverage, score = comparison[key], comparison["coverage"][key], total_of(comparison)
    sentences = document.get("sentences") or []
    passage_of_sentence = _passages_of_sentences(sentences, document["passages"])
    sentences_of: dict[int, list[tuple[int, Mapping[str, Any]]]] = {}
    for row, passage in enumerate(passage_of_sentence):
        sentences_of.setdefault(passage, []).append((row, sentences[row]))
    passages = [
        {
            "index": row,
            "section": passage["section"],
            "pieces": list(_pieces(passage, sentences_of.get(row, ()))),
            "excerpt": _excerpt(passage["text"]),
            "best": _best(similarity["passages"][row]),
        }
        for row, passage in enumerate(document["passages"])
    ]
    is_whole = len(document["sections"]) == 1 and not (coverage["left_out"] or coverage["empty_sections"])
    sections: list[dict[str, Any]] = []
    # A document whose outermost headings are of level 2 is shown like one that starts at level 1.
    outermost = min((_depth(section) - len(_ancestors(section)) for section in document["sections"]), default=1)
    open_path: Sequence[str] = ()
    for row, section in enumerate(document["sections"]):
        sections.append(
            {
                "index": row,
                "heading": section["heading"],
                "label": section_name(section["heading"], section.get("number", row), 1 if is_whole else 2),
                "depth": min(6, _depth(section) - outermost + 1),
                "new_ancestors": list(_new_ancestors(_ancestors(section), open_path)),
                "passages": [passage for passage in passages if passage["section"] == row],
                "contribution": section["contribution"],
                "share": part_of_score(section["contribution"], score),
                "best": _best(similarity["sections"][row]),
            }
        )
        open_path = section["path"] or (section["heading"],)
    return {
        "key": key,
        "letter": letter,
        "id": document["id"],
        "title": document["title"] or document["id"],
        "sections": sections,
        "passages": passages,
        "largest_contribution": max((abs(section["contribution"]) for section in sections), default=0.0),
        "coverage": coverage,
        "sentences": [sentence["text"] for sentence in sentences],
        "passage_of_sentence": passage_of_sentence,
        # The first sentence of every paragraph, and one past the last.
        "paragraphs": [paragraph["sentences"] for paragraph in document.get("paragraphs") or ()],
    }


def _ancestors(section: Mapping[str, Any]) -> Sequence[str]:
    path: Sequence[str] = section["path"]
    return path[:-1] if path and path[-1] == section["heading"][:PATH_CHARACTERS].rstrip() else path


def _depth(section: Mapping[str, Any]) -> int:
    """Depth of a heading; a path that is longer than the level says wins, since its headings are shown as well."""
    return max(1, int(section["level"]), len(_ancestors(section)) + 1)


def _new_ancestors(ancestors: Sequence[str], open_path: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Headings without text that open before a section; they have no section themselves."""
    is_open = True
    for depth, text in enumerate(ancestors):
        is_open = is_open and depth < len(open_path) and open_path[depth] == text
        if not is_open and text:
            yield {"text": text, "depth": depth + 1}


def _passages_of_sentences(sentences: Sequence[Mapping[str, Any]], passages: Sequence[Mapping[str, Any]]) -> list[int]:
    """The passage in which most of every sentence stands; one longer than the encoder's limit stands in several."""
    by_section: dict[int, list[int]] = {}
    for row, passage in enumerate(passages):
        by_section.setdefault(passage["section"], []).append(row)

    def overlap(sentence: Mapping[str, Any], row: int) -> int:
        passage = passages[row]
        return int(min(passage["end"], sentence["end"]) - max(passage["start"], sentence["start"]))

    return [max(by_section[sentence["section"]], key=partial(overlap, sentence)) for sentence in sentences]


def _pieces(
    passage: Mapping[str, Any], sentences: Sequence[tuple[int, Mapping[str, Any]]]
) -> Iterator[tuple[int | None, str]]:
    # Spans of sentences count from the start of the section, like those of passages.
    text, position = unwrapped(passage["text"]), 0
    for row, sentence in sentences:
        start = max(position, sentence["start"] - passage["start"])
        end = min(len(text), sentence["end"] - passage["start"])
        if start < end:
            if start > position:
                yield None, text[position:start]
            yield row, text[start:end]
            position = end
    if position < len(text):
        yield None, text[position:]


def _best(scores: Matrix) -> dict[str, Any] | None:
    if np.isnan(scores).all():
        return None
    index = int(np.nanargmax(scores))
    return {"index": index, "score": float(scores[index])}


def _excerpt(text: str) -> str:
    return one_line(text[: 4 * _EXCERPT], _EXCERPT)


def total_of(comparison: Mapping[str, Any]) -> float:
    """Return what contributions add up to: the score, or the sum of z-scores that it shows."""
    evidence = comparison.get("evidence")
    return float(evidence["sum"] if evidence else comparison["document"])


def part_of_score(contribution: float | None, score: float) -> float | None:
    """Return which part of a score a contribution is; nothing of one that is negative or too small to be divided."""
    return None if contribution is None or score < _SMALLEST_DIVISIBLE_SCORE else contribution / score


def read_matches(comparison: Mapping[str, Any], level: str, a: Side, b: Side) -> dict[str, Any]:
    """Return the strongest matches of a level, every pair once, with the headings and first words of both ends."""
    pairs: dict[tuple[int, int], Mapping[str, Any]] = {}
    for match in comparison["matches"][level]:
        row, column = match["a"], match["b"]
        if not comparison["self"]:
            pairs[row, column] = match
        # Within one document a pair and its mirror image are the same pair, and a part is trivially like itself.
        elif row != column:
            pairs.setdefault((min(row, column), max(row, column)), match)
    listed = []
    for match in list(pairs.values())[:LISTED_MATCHES]:
        ends = {"a": _end(level, match["a"], a), "b": _end(level, match["b"], b)}
        listed.append({**match, **ends, "share": part_of_score(match["contribution"], total_of(comparison))})
    return {"total": len(pairs), "listed": listed}


def _end(level: str, index: int, side: Side) -> dict[str, Any]:
    """How a list shows one part of a pair: its number, its section, its first words and where it stands."""
    if level == "sections":
        section = side["sections"][index]
        excerpt, anchor = section["passages"][0]["excerpt"], f"{side['key']}-s{index + 1}"
        return {"index": index, "label": section["label"], "excerpt": excerpt, "anchor": anchor}
    first, last = side["paragraphs"][index] if level == "paragraphs" else (index, index + 1)
    row = index if level == "passages" else side["passage_of_sentence"][first]
    passage = side["passages"][row]
    excerpt = passage["excerpt"] if level == "passages" else _excerpt(" ".join(side["sentences"][first:last][:9]))
    label = side["sections"][passage["section"]]["label"]
    return {"index": index, "label": label, "excerpt": excerpt, "anchor": f"{side['key']}-p{row + 1}"}


def meaning_of_score(comparison: Mapping[str, Any]) -> str:
    """Return on what scale the document score lies."""
    similarity = comparison["model"]["similarity"]
    scale = similarity_of(similarity).meaning if similarity in SIMILARITIES else f"{similarity} of both vectors."
    if not comparison["self"]:
        return scale
    return f"A document against itself, so this score says nothing; look for parts that repeat each other. {scale}"


def read_words(comparison: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how much of the document score words that both share make up, and which; None without a lexical part."""
    lexical = comparison["lexical"]
    return lexical and {
        "score": lexical["score"],
        "share": part_of_score(lexical["score"], total_of(comparison)),
        "words": lexical["words"][:LISTED_WORDS],
    }


def read_alignment(comparison: Mapping[str, Any], a: Side, b: Side) -> dict[str, Any] | None:
    """Return the pairs of paragraphs in both directions, those that add most first, and the scores by sentences.

    None without sentences, and within one document, where every sentence is its own best one.
    """
    alignment = comparison["alignment"]
    if alignment is None or comparison["self"]:
        return None
    directions: list[dict[str, Any]] = []
    packed: list[dict[str, Any]] = []
    for direction, letters in (("source", "AB"), ("candidate", "BA")):
        pairs = [pair for pair in alignment["pairs"] if pair["direction"] == direction]
        listed = []
        for pair in sorted(pairs, key=_by_contribution)[:LISTED_MATCHES]:
            ends = {"a": _end("paragraphs", pair["source"], a), "b": _end("paragraphs", pair["candidate"], b)}
            share = part_of_score(pair["contribution"], alignment["score"])
            listed.append({**pair, **ends, "number": len(packed), "share": share})
            packed.append(_packed_pair(pair))
        if pairs:
            added = sum(pair["contribution"] for pair in pairs)
            directions.append({"letters": letters, "total": len(pairs), "added": added, "listed": listed})
    return {
        "score": alignment["score"],
        "scores": [(name, score, _SCORES_BY_SENTENCES[name]) for name, score in comparison["sentence_scores"].items()],
        "directions": directions,
        "packed": packed,
    }


def _by_contribution(pair: Mapping[str, Any]) -> tuple[float, int, int]:
    return -pair["contribution"], pair["source"], pair["candidate"]


def _packed_pair(pair: Mapping[str, Any]) -> dict[str, Any]:
    """A pair of paragraphs as numbers; texts of sentences are in the page already."""
    sentences = sorted(pair["sentences"], key=_by_contribution)
    shown = [
        [part["source"], part["candidate"], round(part["cosine"], 6), round(part["contribution"], 9)]
        for part in sentences[:LISTED_SENTENCES]
    ]
    pair = {"a": pair["source"], "b": pair["candidate"], "score": round(pair["score"], 4)}
    return {**pair, "total": len(sentences), "sentences": shown}


def read_subtopics(comparison: Mapping[str, Any], a: Side, b: Side) -> dict[str, Any] | None:
    """Return the subtopics by who has them, and the subtopic of every sentence; None where there are none."""
    subtopics, within = comparison["subtopics"], comparison["self"]
    if subtopics is None:
        return None
    rows = subtopics["rows"]
    groups = [
        {"title": title, "rows": [row for row in rows if row["holder"] == holder]} for holder, title in _HOLDERS.items()
    ]
    groups = [{"title": "Subtopics", "rows": rows}] if within else groups
    return {
        "by": subtopics["by"],
        "number": len(rows),
        "groups": [group for group in groups if group["rows"]],
        "beyond": [(letter, count) for letter, count in zip("AB", subtopics["beyond"], strict=True) if count],
        "packed": {
            # A sentence that the page does not show has no place to colour.
            "a": subtopics["a"][: len(a["sentences"])],
            "b": subtopics["a" if within else "b"][: len(b["sentences"])],
            "alone": [] if within else [row["number"] for row in rows if row["holder"] != "both"],
        },
    }
