"""Collections for the tests of overviews: documents of known topics with vectors that follow them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.overview import Overview

TOPICS = {
    "tides": "tide current basin turbine estuary channel flow moon gauge ebb sluice barrage",
    "vinegar": "vinegar barrel acid bacteria wine ferment cask skin alcohol air malt souring",
    "clocks": "clock drift server log order leader vote quorum message network replica entry",
    "bread": "dough yeast flour oven crust starter loaf knead crumb salt bake rise",
}


def make_collection(size: int = 30, *, seed: int = 0, **titles: str) -> tuple[list[Document], Any]:
    """Documents of four topics, ``size`` of each, with labels, dates and folders; and vectors ``(documents, 32)``.

    Args:
        size: documents of a topic.
        seed: draws words and vectors.
        titles: by id, other titles than the usual ones.
    """
    draw = np.random.default_rng(seed)
    documents, vectors = [], []
    for number, (topic, words) in enumerate(TOPICS.items()):
        direction = np.eye(32)[number]
        for place in range(size):
            id = f"{topic}/{place:03}"
            text = " ".join(draw.choice(words.split(), 40))
            metadata = {"date": f"{1990 + place % 30}-05-0{1 + number}", "kind": "even" if place % 2 else "odd"}
            title = titles.get(id, f"About {topic}, part {place}")
            documents.append(Document(id, (Section(text),), title, topic, metadata))
            vectors.append(direction + draw.normal(scale=0.08, size=32))
    return documents, np.array(vectors, np.float32)


WORDS = [f"{a}{b}{c}" for a in ("ba", "ke", "li", "mo", "tu") for b in "nrst" for c in ("a", "el", "in", "os")]
LICENCE = (
    "Permission is granted to copy this text, to change it and to give it on to others for any purpose, as long as "
    "this notice stays with it. It comes without any warranty, and nobody is liable for what is done with it. "
)


def sentences(seed: int, count: int) -> str:
    """Sentences of eleven made-up words each."""
    draw = random.Random(seed)
    return " ".join(" ".join(draw.choices(WORDS, k=11)).capitalize() + "." for _ in range(count))


def with_licences(documents: Sequence[Document], text: str = LICENCE) -> list[Document]:
    """The documents, each second one with a licence as a section of its own."""
    licence = Section(text, heading="Licence")
    return [
        one if number % 2 else replace(one, sections=(*one.sections, licence)) for number, one in enumerate(documents)
    ]


def make_overview(size: int = 30, *, seed: int = 0, titles: dict[str, str] | None = None, **options: Any) -> Overview:
    """The overview of such a collection."""
    documents, vectors = make_collection(size, seed=seed, **(titles or {}))
    return overview_of(documents, vectors, **options)


def overview_of(documents: Sequence[Document], vectors: Any, **options: Any) -> Overview:
    """The overview of some documents with vectors."""
    ids = [one.id for one in documents]
    return Overview.from_vectors(ids, vectors, documents, model={"name": "made up"}, **options)
