"""Results of searches for the tests of their page: made-up hits whose numbers agree with each other."""

from __future__ import annotations

from typing import Any

from comparison_payload import ATTACK

RIGHT_TO_LEFT = "\u202egnp.exe\u2066"
PASSAGE = "A tidal barrage turns the ebb of an estuary into power. "


def make_passage(number: int, text: str, term: str | None = "tidal", **changes: Any) -> dict[str, Any]:
    """A passage in which every place of a term is a match."""
    starts = [place for place in range(len(text)) if term and text.startswith(term, place)]
    return {
        "number": number, "section": number // 2, "heading": f"Part {number // 2 + 1}", "start": 700 * number,
        "end": 700 * number + len(text), "text": text, "words": 12.5 / (number + 1) if starts else None,
        "vectors": 0.75 - 0.125 * number, "matches": [[start, start + len(term or "")] for start in starts],
        **changes,
    }  # fmt: skip


def make_hit(rank: int, passages: int = 2, characters: int = 300, **changes: Any) -> dict[str, Any]:
    """A hit of reciprocal rank fusion; its explanation adds up to its scores."""
    parts = {
        "words": {"rank": rank, "score": 25.0 / rank, "share": 1 / (60 + rank)},
        "vectors": {"rank": rank + 2, "score": 2.0 / rank, "share": 1 / (62 + rank)},
    }
    text = (PASSAGE * (characters // len(PASSAGE) + 1))[:characters]
    listed = [make_passage(number, text) for number in range(passages)]
    return {
        "rank": rank,
        "id": f"estuary/{rank}.md",
        "title": f"Power from the tide, volume {rank}",
        "score": sum(part["share"] for part in parts.values()),
        "cut": 9_000 if rank == 2 else 0,
        "metadata": {"year": 1990 + rank, "authors": ["Ada Byron", "Émilie du Châtelet"], "venue": None},
        "parts": parts,
        "passages": listed,
        "explanation": {
            "words": [
                {"term": "tidal", "frequency": 7, "document_frequency": 18, "contribution": 15.0 / rank},
                {"term": "barrage", "frequency": 3, "document_frequency": 4, "contribution": 10.0 / rank},
            ],
            "vectors": [
                {"number": number, "heading": f"Part {number}", "contribution": 2.0 / rank / passages}
                for number in range(passages)
            ],
        },
        "alignment": None,
        "comparison": f"comparisons/{rank}.html",
        **changes,
    }


def make_alignment(pairs: int = 5, sentences: int = 3, text: str = PASSAGE, left: int = 0) -> dict[str, Any]:
    """An alignment as a page has it, from which as many pairs are left out; what sentences add makes up its score."""
    listed = []
    for number in range(pairs):
        own = [
            {"source": 10 * number + place, "candidate": 50 + place, "cosine": 0.9 - 0.01 * place,
             "contribution": 0.01 * (pairs - number) / (place + 1),
             "source_text": f"{text.strip()} A{place}", "candidate_text": f"{text.strip()} B{place}"}
            for place in range(sentences)
        ]  # fmt: skip
        pair = {
            "source": number, "candidate": 2, "direction": "source", "sentences": own, "total": sentences + left,
            "score": sum(one["cosine"] for one in own) / sentences, "strength": float(pairs - number),
            "contribution": sum(one["contribution"] for one in own),
            "source_heading": f"Own part {number}", "candidate_heading": text,
        }  # fmt: skip
        for side in ("source", "candidate"):
            texts = [{"sentence": one[side], "text": one[f"{side}_text"], "space": " "} for one in own]
            pair[f"{side}_stretch"] = [None, *texts]
        listed.append(pair)
    score = sum(pair["contribution"] for pair in listed)
    return {"by": "sentences", "score": score, "is_whole": False, "total": pairs + left, "pairs": listed}


def make_results(
    hits: int | list[dict[str, Any]] = 3, passages: int = 2, characters: int = 300, **changes: Any
) -> dict[str, Any]:
    """Results of a hybrid search: so many hits, or given ones."""
    if isinstance(hits, int):
        hits = [make_hit(rank, passages, characters) for rank in range(1, hits + 1)]
    return {
        "query": {"text": "tidal barrage", "document": None, "title": ""},
        "by": "hybrid",
        "fusion": "reciprocal_rank",
        "where": None,
        "top_k": 10,
        "index": {
            "path": "library",
            "documents": 232,
            "passages": 22_000,
            "model": {
                "name": "mini",
                "readout": "mean",
                "similarity": "cosine",
                "graph_layers": 2,
                "lexical": {"size": 512, "vocabulary": "d45bfa27"},
            },
        },
        "warnings": [],
        "hits": hits,
        **changes,
    }


def make_attack() -> dict[str, Any]:
    """Results in which every text tries to run a script or to leave its place in the page, and no number is one."""
    evil = f"{ATTACK} {RIGHT_TO_LEFT} \ud800 \x00"
    results = make_results(hits=2, by=evil, fusion=evil, where=evil, top_k=evil, warnings=[evil])
    results["query"] = {"text": evil, "document": evil, "title": f"{evil}!"}
    results["index"] = {"path": evil, "documents": 2, "passages": 4, "model": {"name": evil, evil: evil}}

    def spoiled(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: spoiled(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [spoiled(one, key) for one in value]
        if isinstance(value, float):
            return float("inf") if key == "share" else float("nan")
        return evil if isinstance(value, str) or key in ("frequency", "document_frequency") else value

    for place, hit in enumerate(results["hits"]):
        hit["alignment"] = make_alignment(2, text=evil)
        hit["explanation"]["sentences"] = [
            {"source": 0, "candidate": 1, "source_heading": evil, "candidate_heading": evil, "contribution": 0.5}
        ]
        results["hits"][place] = hit = spoiled(hit)
        hit["metadata"] = {evil: [evil, {evil: float("nan")}], "long": "x" * 5_000}
        hit["comparison"] = "javascript:window.attacked=1"
        for passage in hit["passages"]:
            text = f"{evil} {'y' * 5_000} {evil}"
            passage.update(text=text, matches=[[0, 9], [5, 30], [len(text) - 5, 10**9], [-7, 2]])
    return results
