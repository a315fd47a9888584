"""Payloads of comparisons for the tests of the report: made-up documents with vectors that share topics."""

from __future__ import annotations

from typing import Any

import numpy as np

TOPICS = ("Tides", "Cost of the works", "Birds of the mudflats", "Harbour", "Law and permits", "Gates")
ATTACK = (
    '<script>window.attacked=1</script></script><img src=x onerror="window.attacked=1">\'"--><!--{{ 7*7 }}'
    "{% raw %}\u2028\u2029<svg onload=window.attacked=1><a href=javascript:window.attacked=1>x</a>&lt;b&gt;"
)
MODEL = {
    "name": "mini", "readout": "mean", "pooling": "mean", "graph_kind": "full", "graph_layers": 2,
    "similarity": "cosine", "trained": True,
}  # fmt: skip


def make_payload(
    passages: tuple[int, int] = (14, 11),
    sections: tuple[int, int] = (5, 4),
    words: int = 60,
    within: bool = False,
    sentences: bool = False,
    attention_heads: int = 0,
) -> dict[str, Any]:
    """A comparison whose scores follow from vectors, with contributions that add up to the document score."""
    random = np.random.default_rng(0)
    directions = random.normal(size=(len(TOPICS), 48)) + 0.35
    made = [_document(*side, words, directions, random) for side in zip("ab", passages, sections, strict=True)]
    sides, vectors = zip(*([made[0], made[0]] if within else made), strict=True)
    lengths = np.prod([np.linalg.norm(rows.sum(axis=0)) for rows in vectors])
    member = [np.eye(len(side["sections"]))[[p["section"] for p in side["passages"]]] for side in sides]
    of_sections = [_unit(of.T @ rows) for of, rows in zip(member, vectors, strict=True)]
    scores = {"sections": of_sections[0] @ of_sections[1].T, "passages": vectors[0] @ vectors[1].T}
    parts = {"passages": scores["passages"] / lengths}
    parts["sections"] = member[0].T @ parts["passages"] @ member[1]
    for side, axis in zip(sides, (1, 0), strict=True):
        for level in parts:
            for part, value in zip(side[level], parts[level].sum(axis=axis), strict=True):
                part["contribution"] = float(value)
    others = ("paragraphs", "sentences", "sentence_scores", "alignment", "subtopics", "lexical", "attention")
    payload: dict[str, Any] = {
        "format": "graphdoc.comparison/1", "model": dict(MODEL), "document": float(parts["passages"].sum()),
        "share": None if within else 0.9921, "share_of": "unrelated pairs of mixed texts", **dict.fromkeys(others),
        **{level: matrix.tolist() for level, matrix in scores.items()}, "self": within,
        "contributions": {level: matrix.tolist() for level, matrix in parts.items()},
        "matches": {level: _matches(scores[level], parts[level], within) for level in scores}, "a": sides[0],
        "b": sides[1], "coverage": {letter: _coverage(side) for letter, side in zip("ab", sides, strict=True)},
    }  # fmt: skip
    if sentences:
        _add_sentences(payload, random)
    if attention_heads:
        payload["attention"] = _attention(payload, attention_heads, random)
    return payload


def make_attack(attention_heads: int = 0) -> dict[str, Any]:
    """A comparison whose every text tries to run a script or to leave its place in the page."""
    payload = make_payload(passages=(4, 3), sections=(2, 2), attention_heads=attention_heads)
    payload["model"]["name"] = ATTACK
    payload["coverage"]["a"]["left_out"] = {ATTACK: 7}
    for side in (payload["a"], payload["b"]):
        side["id"] = side["title"] = ATTACK
        for section in side["sections"]:
            section.update(heading=ATTACK, path=[ATTACK + "!", ATTACK])
        for passage in side["passages"]:
            passage["text"] = f"{ATTACK} \ud800 \x00 {passage['text'][:40]} {ATTACK}"
    return payload


def _document(letter: str, count: int, parts: int, words: int, directions: Any, random: Any) -> tuple[Any, Any]:
    sections: list[dict[str, Any]] = []
    passages: list[dict[str, Any]] = []
    rows = []
    for index, members in enumerate(np.array_split(np.arange(count), parts)):
        topic = (index + (letter == "b")) % len(TOPICS)
        heading = TOPICS[topic] + (f", part {index}" if index >= len(TOPICS) else "")
        path = ["The wider picture", heading] if index % 3 == 2 else [heading]
        sections.append({"heading": heading, "level": len(path), "path": path, "passages": members.tolist()})
        start = 0
        for number in members.tolist():
            sentence = f"The {TOPICS[topic].lower()} of {letter} have so much of number {number} in them."
            text = " ".join([sentence] * max(1, words // 12))
            span = {"start": start, "end": start + len(text), "tokens": words * 4 // 3}
            passages.append({"section": index, "text": text, **span})
            start += len(text) + 1
            rows.append(directions[topic] + random.normal(scale=1.2, size=directions.shape[1]))
    title = "A barrage across the estuary" if letter == "a" else "What the sea wall cost, and whom"
    return {"id": f"{letter}.md", "title": title, "sections": sections, "passages": passages}, _unit(np.array(rows))


def _unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _matches(scores: Any, parts: Any, within: bool) -> list[dict[str, Any]]:
    shown = np.where(np.eye(*scores.shape, dtype=bool), -2, scores) if within else scores
    pairs = {(row, int(shown[row].argmax())) for row in range(len(shown))}
    pairs |= {(int(shown[:, column].argmax()), column) for column in range(shown.shape[1])}
    return [
        {"a": a, "b": b, "score": float(scores[a, b]), "contribution": None if parts is None else float(parts[a, b])}
        for a, b in sorted(pairs, key=lambda pair: -shown[pair])[:20]
    ]


def _attention(payload: dict[str, Any], heads: int, random: Any) -> dict[str, Any]:
    """Weights that sum to 1 by passage that looks: between documents, and from every section to the next."""
    a, b = (np.array([p["section"] for p in payload[letter]["passages"]]) for letter in "ab")

    def weights(looks: Any, seen: Any, pairs: Any = True) -> list[Any]:
        raw = np.where(pairs, np.exp(2 * random.normal(size=(heads, len(looks), len(seen)))), 0)
        return (raw / raw.sum(-1, keepdims=True)).round(6).tolist()

    within = [weights(of, of, (of[:, None] + 1) % (of.max() + 1) == of[None]) for of in (a, b)]
    if payload["self"]:
        return {"heads": heads, "a": within[0]}
    return {"heads": heads, "a": within[0], "b": within[1], "a_to_b": weights(a, b), "b_to_a": weights(b, a)}


def _coverage(side: dict[str, Any]) -> dict[str, Any]:
    counts = {
        "characters": sum(len(passage["text"]) for passage in side["passages"]),
        "tokens": sum(passage["tokens"] for passage in side["passages"]),
        "passages": len(side["passages"]),
    }
    encoded = {f"encoded_{name}": count for name, count in counts.items()}
    return {**counts, **encoded, "left_out": {}, "split_sentences": 0, "empty_sections": 1}


def _add_sentences(payload: dict[str, Any], random: Any) -> None:
    for letter in "ab":
        listed = payload[letter]["sentences"] = []
        for index, passage in enumerate(payload[letter]["passages"]):
            start = passage["start"]
            for text in passage["text"].replace(". ", ".\n").split("\n"):
                span = {"start": start, "end": start + len(text)}
                listed.append({"section": passage["section"], "passage": index, "text": text, **span})
                start += len(text) + 1
    rows, columns = ([s["passage"] for s in payload[letter]["sentences"]] for letter in "ab")
    scores = np.array(payload["passages"])[np.ix_(rows, columns)]
    scores = np.clip(scores + random.normal(scale=0.05, size=scores.shape), -1, 1)
    payload["sentences"] = scores.tolist()
    payload["matches"]["sentences"] = _matches(scores, None, payload["self"])
