from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest


@dataclass(frozen=True)
class Example:
    """A document as training sees it."""

    id: str
    group: int
    sections: npt.NDArray[np.int64]
    token_ids: tuple[npt.NDArray[np.int32], ...]


ExampleFactory = Callable[..., list[Example]]


@pytest.fixture(scope="session")
def training_examples() -> ExampleFactory:
    """Makes documents of very different sizes, each of a few tokens of its own: ``training_examples(8, seed=1)``."""

    def make(count: int, *, seed: int = 0, most: int = 9, longest: int = 40, vocabulary: int = 100) -> list[Example]:
        draw = np.random.default_rng(seed)
        examples = []
        for number in range(count):
            passages = int(draw.integers(2, most + 1))
            lengths = draw.integers(3, longest + 1, size=passages)
            words = draw.integers(4, vocabulary, size=6)
            token_ids = tuple(np.array([0, *draw.choice(words, size=length - 2), 2], np.int32) for length in lengths)
            sections = np.sort(draw.integers(0, 3, size=passages)).astype(np.int64)
            examples.append(Example(f"document {seed}-{number}", 1000 * seed + number, sections, token_ids))
        return examples

    return make
