"""Payloads of comparisons for the tests of the report: made-up documents with vectors that share topics."""

from __future__ import annotations

from typing import Any

import numpy as np

TOPICS = {
    "Tides and currents": "tide current basin turbine estuary channel flow moon gauge ebb sluice barrage",
    "Cost of the works": "cost price loan budget tender contract interest subsidy market bill payment share",
    "Birds of the mudflats": "wader dunlin mud feeding roost winter flock species habitat worm survey ring",
    "History of the harbour": "harbour quay merchant charter mill century wall dock trade customs port ship",
    "Law and permits": "permit court appeal clause statute hearing objector licence notice panel ruling act",
    "Engineering of the gates": "gate steel hinge weld seal bearing crane caisson concrete pier bolt load",
}
LITTLE_WORDS = "the of and in to with for from that which was were had been by at on as its this"
ATTACK = (
    '<script>window.attacked=1</script></script><img src=x onerror="window.attacked=1">\'"--><!--{{ 7*7 }}'
    "{% raw %}\u2028\u2029<svg onload=window.attacked=1><a href=javascript:window.attacked=1>x</a>&lt;b&gt;"
)


def make_payload(
    passages: tuple[int, int] = (14, 11),
    sections: tuple[int, int] = (5, 4),
    words: int = 60,
    within: bool = False,
    sentences: bool = False,
    attention_heads: int = 0,
    seed: int = 0,
) -> dict[str, Any]:
    """A comparison whose scores follow from vectors, with contributions that add up to the document score."""
    random = np.random.default_rng(seed)
    directions = random.normal(size=(len(TOPICS), 48)) + 0.35
    sides, vectors = [], []
    for letter, count, parts in zip("ab", passages, sections, strict=True):
        side, side_vectors = _document(letter, count, parts, words, directions, random)
        sides.append(side)
        vectors.append(side_vectors)
    if within:
        sides[1], vectors[1] = sides[0], vectors[0]
    means = [rows.mean(axis=0) for rows in vectors]
    scale = np.linalg.norm(means[0]) * np.linalg.norm(means[1]) * len(vectors[0]) * len(vectors[1])
    contribution = vectors[0] @ vectors[1].T / scale
    document = float(contribution.sum())
    section_of = [np.array([p["section"] for p in side["passages"]]) for side in sides]
    member = [np.eye(len(side["sections"]))[of] for side, of in zip(sides, section_of, strict=True)]
    section_contribution = member[0].T @ contribution @ member[1]
    section_vectors = [_unit(m.T @ rows) for m, rows in zip(member, vectors, strict=True)]
    section_similarity = section_vectors[0] @ section_vectors[1].T
    similarity = vectors[0] @ vectors[1].T
    for side, axis in zip(sides, (1, 0), strict=True):
        for passage, value in zip(side["passages"], contribution.sum(axis=axis), strict=True):
            passage["contribution"] = float(value)
        for section, value in zip(side["sections"], section_contribution.sum(axis=axis), strict=True):
            section["contribution"] = float(value)
    payload: dict[str, Any] = {
        "format": "graphdoc.comparison/1",
        "model": {
            "name": "mini",
            "readout": "mean",
            "pooling": "mean",
            "graph_kind": "full",
            "graph_layers": 2,
            "similarity": "cosine",
            "trained": True,
        },
        "document": document,
        "share": None if within else 0.9921,
        "sections": section_similarity.tolist(),
        "passages": similarity.tolist(),
        **dict.fromkeys(
            ("paragraphs", "sentences", "sentence_scores", "alignment", "subtopics", "lexical", "attention")
        ),
        "contributions": {"sections": section_contribution.tolist(), "passages": contribution.tolist()},
        "matches": {
            "sections": _matches(section_similarity, section_contribution, within),
            "passages": _matches(similarity, contribution, within),
        },
        "a": sides[0],
        "b": sides[1],
        "coverage": {letter: _coverage(side) for letter, side in zip("ab", sides, strict=True)},
        "self": within,
    }
    if sentences:
        _add_sentences(payload)
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
            section["heading"] = ATTACK
            section["path"] = [ATTACK + "!", ATTACK]
        for passage in side["passages"]:
            passage["text"] = f"{ATTACK} \ud800 \x00 {passage['text'][:40]} {ATTACK}"
    return payload


def _document(
    letter: str, count: int, parts: int, words: int, directions: np.ndarray, random: np.random.Generator
) -> tuple[dict[str, Any], np.ndarray]:
    names = list(TOPICS)
    cuts = np.linspace(0, count, parts + 1).round().astype(int)
    sections: list[dict[str, Any]] = []
    passages: list[dict[str, Any]] = []
    rows = []
    for index in range(parts):
        topic = (index + (letter == "b")) % len(names)
        heading = names[topic] if index < len(names) else f"{names[topic]}, part {index // len(names) + 1}"
        is_nested = index % 3 == 2
        sections.append(
            {
                "heading": heading,
                "level": 2 if is_nested else 1,
                "path": ["The wider picture", heading] if is_nested else [heading],
                "passages": list(range(int(cuts[index]), int(cuts[index + 1]))),
            }
        )
        start = 0
        for _ in range(cuts[index], cuts[index + 1]):
            text = " ".join(_sentence(TOPICS[names[topic]], random) for _ in range(max(1, words // 12)))
            passages.append(
                {"section": index, "text": text, "start": start, "end": start + len(text), "tokens": words * 4 // 3}
            )
            start += len(text) + 1
            rows.append(directions[topic] + random.normal(scale=1.2, size=directions.shape[1]))
    title = "A barrage across the estuary" if letter == "a" else "What the sea wall cost, and whom"
    return {"id": f"{letter}.md", "title": title, "sections": sections, "passages": passages}, _unit(np.array(rows))


def _sentence(topic_words: str, random: np.random.Generator) -> str:
    pairs = [
        str(random.choice(LITTLE_WORDS.split())) + " " + str(random.choice(topic_words.split())) for _ in range(6)
    ]
    return " ".join(pairs).capitalize() + "."


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _matches(similarity: np.ndarray, contribution: np.ndarray | None, within: bool) -> list[dict[str, Any]]:
    scores = np.where(np.eye(*similarity.shape, dtype=bool), -2, similarity) if within else similarity
    pairs = {(row, int(scores[row].argmax())) for row in range(len(scores))}
    pairs |= {(int(scores[:, column].argmax()), column) for column in range(scores.shape[1])}
    ranked = sorted(pairs, key=lambda pair: -scores[pair])[:20]
    return [
        {
            "a": a,
            "b": b,
            "score": float(similarity[a, b]),
            "contribution": None if contribution is None else float(contribution[a, b]),
        }
        for a, b in ranked
    ]


def _attention(payload: dict[str, Any], heads: int, random: np.random.Generator) -> dict[str, Any]:
    """Weights that sum to 1 by passage that looks: between documents, and from every section to the next."""
    section_of = [np.array([p["section"] for p in payload[letter]["passages"]]) for letter in "ab"]

    def weights(looks: np.ndarray, seen: np.ndarray, pairs: np.ndarray | bool = True) -> list[Any]:
        raw = np.where(pairs, np.exp(2 * random.normal(size=(heads, len(looks), len(seen)))), 0)
        return (raw / raw.sum(-1, keepdims=True)).round(6).tolist()

    within = [
        weights(of, of, (of[:, None] + 1) % len(side["sections"]) == of[None])
        for of, side in zip(section_of, (payload["a"], payload["b"]), strict=True)
    ]
    if payload["self"]:
        return {"heads": heads, "a": within[0]}
    a, b = section_of
    return {"heads": heads, "a": within[0], "b": within[1], "a_to_b": weights(a, b), "b_to_a": weights(b, a)}


def _coverage(side: dict[str, Any]) -> dict[str, Any]:
    characters = sum(len(passage["text"]) for passage in side["passages"])
    tokens = sum(passage["tokens"] for passage in side["passages"])
    return {
        "characters": characters,
        "encoded_characters": characters,
        "tokens": tokens,
        "encoded_tokens": tokens,
        "passages": len(side["passages"]),
        "encoded_passages": len(side["passages"]),
        "left_out": {},
        "split_sentences": 0,
        "empty_sections": 1,
    }


def _add_sentences(payload: dict[str, Any]) -> None:
    for letter in "ab":
        found = []
        for index, passage in enumerate(payload[letter]["passages"]):
            position = 0
            for text in passage["text"].split(". "):
                text = text if text.endswith(".") else text + "."
                start = passage["start"] + position
                found.append(
                    {
                        "section": passage["section"],
                        "passage": index,
                        "text": text,
                        "start": start,
                        "end": start + len(text),
                    }
                )
                position += len(text) + 1
        payload[letter]["sentences"] = found
    passages = np.array(payload["passages"])
    rows, columns = ([s["passage"] for s in payload[letter]["sentences"]] for letter in "ab")
    noise = np.random.default_rng(1).normal(scale=0.05, size=(len(rows), len(columns)))
    similarity = np.clip(passages[np.ix_(rows, columns)] + noise, -1, 1)
    payload["sentences"] = similarity.tolist()
    payload["matches"]["sentences"] = _matches(similarity, None, payload["self"])
