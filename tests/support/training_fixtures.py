from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from corpus_examples import SettingsFactory, rows_of, write_rows
from transformers import AutoModelForMaskedLM, AutoTokenizer
from typed import Backbones, Folders

from graphdoc.corpus.corpus import TrainingCorpus, prepare_corpus
from graphdoc.corpus.source import StreamingCorpus
from graphdoc.segmentation.segmenter import SegmentationConfig, Segmenter
from graphdoc.settings.run import CorpusSettings


@dataclass(frozen=True)
class Example:
    """A document as training sees it."""

    id: str
    group: int
    sections: npt.NDArray[np.int64]
    token_ids: tuple[npt.NDArray[np.int32], ...]


ExampleFactory = Callable[..., list[Example]]
Prepare = Callable[..., TrainingCorpus]
Stream = Callable[..., StreamingCorpus]


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


@pytest.fixture(scope="session")
def segmenter(backbone_folder: Backbones) -> Segmenter:
    """Cuts documents into passages of about 20 words."""
    tokenizer = AutoTokenizer.from_pretrained(backbone_folder("roberta"))
    return Segmenter(tokenizer, SegmentationConfig(passage_words=20, max_tokens=78, max_passages=100))


@pytest.fixture(scope="session")
def language_model_folder(backbone_folder: Backbones, tmp_path_factory: Folders) -> Path:
    """A folder with a tiny random language model, whose tokenizer has a mask token, as the hub would give it."""
    folder = tmp_path_factory.mktemp("language models") / "tiny-language-model"
    tokenizer = AutoTokenizer.from_pretrained(backbone_folder("roberta"))
    tokenizer.mask_token = tokenizer.convert_ids_to_tokens(len(tokenizer) - 1)
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        AutoModelForMaskedLM.from_pretrained(backbone_folder("roberta")).save_pretrained(folder)
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> SettingsFactory:
    """Makes settings of a corpus, by default of 40 documents, 4 of them too short: ``settings(streaming=True)``."""

    def make(**changes: Any) -> CorpusSettings:
        if "dataset" not in changes and "source" not in changes:
            path = tmp_path / "corpus.jsonl"
            if not path.exists():
                write_rows(path, rows_of(40))
            changes["source"] = str(path)
        return CorpusSettings(
            **{
                "cache": str(tmp_path / "cache"),
                "preparing_processes": 1,
                "least_passages": 2,
                "deduplicate": True,
                **changes,
            }
        )

    return make


@pytest.fixture
def prepare(settings: SettingsFactory, segmenter: Segmenter) -> Prepare:
    """Prepares a corpus of such settings: ``prepare(max_passages=4)``."""
    given = segmenter

    def make(segmenter: Segmenter = given, *, without_first_sentence: bool = False, **changes: Any) -> TrainingCorpus:
        return prepare_corpus(settings(**changes), segmenter, without_first_sentence=without_first_sentence)

    return make


@pytest.fixture
def stream(settings: SettingsFactory, segmenter: Segmenter) -> Stream:
    """Streams a corpus of such settings to one process or several: ``stream(process(1, 2), shuffled=7)``."""

    def make(processes: Any = None, *, seed: int = 0, shuffled: int = 10_000, **changes: Any) -> StreamingCorpus:
        return StreamingCorpus(settings(streaming=True, **changes), segmenter, processes, seed=seed, shuffled=shuffled)

    return make
