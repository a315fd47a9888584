"""The comparison report of a hit: at every level, with the score that the search gave it and what makes that up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..analysis.report.page import render_report
from ..similarity.comparison import Comparison
from ..similarity.encoded_document import EncodedDocument
from .alignments import HitAlignment
from .sentence_corpus import PlacedDocument


def hit_report(comparison: Comparison, aligned: HitAlignment | None = None) -> str:
    """Return the report of a hit beside the document that was asked with, as an HTML page.

    A comparison knows nothing of the search that led to it: it looks in both directions and never normalises. Here
    the alignment is that of the search, whose contributions add up to the score of the hit. The report shows passages
    that the model reads; pairs with sentences beyond them are counted and left out.

    Args:
        comparison: the document that was asked with and the hit, with sentences.
        aligned: what the score is made of; None where the search was not by sentences.
    """
    content = comparison.to_dict()
    if aligned is not None:
        pairs, left = _shown(aligned, comparison)
        if pairs:
            content["alignment"] = {"by": aligned.alignment.by, "score": aligned.score, "pairs": pairs}
        content["search"] = {
            "by": aligned.alignment.by,
            "score": aligned.score,
            "direction": aligned.direction,
            "normalisation": aligned.normalisation,
            "aligned": bool(pairs),
            "left_out": left,
        }
    return render_report(content)


def _shown(aligned: HitAlignment, comparison: Comparison) -> tuple[list[dict[str, Any]], int]:
    """The pairs of paragraphs with the numbers that parts have in the comparison, and how many are not in it."""
    if aligned.whole or comparison.a.sentences is None or comparison.b.sentences is None:
        return [], 0
    sides = {"source": comparison.a, "candidate": comparison.b}
    rows = {"source": _rows(aligned.source, comparison.a), "candidate": _rows(aligned.candidate, comparison.b)}
    shown, left = [], 0
    for pair in aligned.alignment.to_dict()["pairs"]:
        sentences = [
            {**one, **{side: own[one[side]] for side, own in rows.items()}}
            for one in pair["sentences"]
            if all(one[side] in own for side, own in rows.items())
        ]
        left += len(pair["sentences"]) - len(sentences)
        firsts = {side: own.get(aligned.first_sentence(side, pair[side])) for side, own in rows.items()}
        if sentences:
            firsts = {side: sentences[0][side] for side in rows}
        elif pair["sentences"] or None in firsts.values():
            left += not pair["sentences"]
            continue
        shown.append({**pair, "sentences": sentences, **_paragraphs(firsts, sides)})
    return shown, left


def _rows(document: PlacedDocument, encoded: EncodedDocument) -> dict[int, int]:
    """By number of a sentence in its document the number that it has in the comparison."""
    there = {(one.section, one.start, one.end): row for row, one in enumerate(encoded.sentences or ())}
    places = enumerate(map(tuple, document.sentences.places[:, :3].tolist()))
    return {number: there[place] for number, place in places if place in there}


def _paragraphs(sentences: Mapping[str, int | None], sides: Mapping[str, EncodedDocument]) -> dict[str, int]:
    found = {}
    for side, encoded in sides.items():
        assert encoded.paragraph_rows is not None
        found[side] = int(encoded.paragraph_rows[sentences[side]])
    return found
