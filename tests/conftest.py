from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, PreTrainedConfig

from graphdoc.documents import Document, Section
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.segmentation import Coverage, SegmentedDocument, Span

# Tiny tensors gain nothing from more threads, and threads that wait for each other cost tens of times the work itself
# where processors are busy, as under xdist.
torch.set_num_threads(1)

# Weights are drawn wide, so that every token and every mask shows in the outputs.
TINY_ENCODER: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 80,
    "initializer_range": 0.3,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
TINY_ENCODERS: dict[str, dict[str, Any]] = {
    "roberta": {"pad_token_id": 1},
    "bert": {"pad_token_id": 0},
    "xlm-roberta": {"pad_token_id": 1},
    "modernbert": {
        "pad_token_id": 3,
        "bos_token_id": 0,
        "cls_token_id": 0,
        "eos_token_id": 2,
        "sep_token_id": 2,
        "initializer_cutoff_factor": 9.0,
        "local_attention": 8,
        "global_attn_every_n_layers": 2,
    },
}

EncoderConfigFactory = Callable[..., PreTrainedConfig]
ModelFactory = Callable[..., DocumentModel]
DocumentFactory = Callable[..., SegmentedDocument]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    np.random.seed(0)


@pytest.fixture(params=sorted(TINY_ENCODERS))
def encoder_name(request: pytest.FixtureRequest) -> str:
    """Runs a test once for every kind of passage encoder."""
    return str(request.param)


@pytest.fixture(scope="session")
def tiny_encoder_config() -> EncoderConfigFactory:
    """Makes the configuration of a tiny random encoder: ``tiny_encoder_config("bert", hidden_size=8)``."""

    def make(name: str = "roberta", **changes: Any) -> PreTrainedConfig:
        return AutoConfig.for_model(name, **{**TINY_ENCODER, **TINY_ENCODERS[name], **changes})

    return make


@pytest.fixture(scope="session")
def tiny_model(tiny_encoder_config: EncoderConfigFactory) -> ModelFactory:
    """Makes a tiny document model in eval mode: ``tiny_model("bert", readout="mean")``."""

    def make(encoder: str = "roberta", *, seed: int = 0, **settings: Any) -> DocumentModel:
        config = DocumentConfig(
            encoder_config=tiny_encoder_config(encoder), **{"projection_size": 16, "passage_tokens": 64, **settings}
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return DocumentModel(config).eval()

    return make


@pytest.fixture(scope="session")
def random_document() -> DocumentFactory:
    """Makes a segmented document of random tokens: ``random_document([0, 0, 1], seed=3)``, one section per passage."""

    def make(sections: Sequence[int], *, seed: int = 0, longest: int = 60) -> SegmentedDocument:
        draw = np.random.default_rng(seed)
        token_ids = tuple(
            (0, *draw.integers(4, 100, size=int(length)).tolist(), 2)
            for length in draw.integers(1, longest - 1, size=len(sections))
        )
        parts = tuple(Section("text") for _ in range(max(sections, default=-1) + 1))
        passages = tuple(Span(section, 0, 4, len(ids) - 2) for section, ids in zip(sections, token_ids, strict=True))
        tokens = sum(passage.tokens for passage in passages)
        coverage = Coverage(4 * len(parts), 4 * len(parts), tokens, tokens, len(passages), len(passages))
        return SegmentedDocument(Document(f"document {seed}", parts), passages, token_ids, coverage)

    return make
