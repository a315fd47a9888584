"""Encoders as models of sentence-transformers, whose own classes load and call them.

Importing this module makes the checkpoints of graphdoc known to ``AutoConfig``, ``AutoModel`` and ``AutoProcessor`` of
transformers. ``SentenceTransformer(folder)`` then reads a folder of :func:`save_for_sentence_transformers` with the
classes that sentence-transformers ships, so ``trust_remote_code`` stays off.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoProcessor, ProcessorMixin

from ..documents.document import Document
from ..encoder import DocumentEncoder
from ..modeling import DocumentConfig
from ..runtime.files import write_text
from ..similarity.kinds import similarity_of

# What sentence-transformers reads in addition to a checkpoint: its parts, their names, and what the whole is like.
MODULES_FILE, MODULE_FILE = "modules.json", "sentence_bert_config.json"
MODEL_FILE = "config_sentence_transformers.json"
_TRANSFORMER = "sentence_transformers.base.modules.transformer.Transformer"
# The keyword "task" is what separates queries from documents.
_MODULES = [{"idx": 0, "name": "0", "path": "", "type": _TRANSFORMER, "kwargs": ["task"]}]
_MODULE = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "vectors"}},
    "module_output_name": "sentence_embedding",
}


def save_for_sentence_transformers(encoder: DocumentEncoder, folder: str | Path) -> Path:
    """Write an encoder as a folder that ``SentenceTransformer`` and ``DocumentEncoder.from_pretrained`` both read."""
    target = encoder.save_pretrained(folder)
    similarity = similarity_of(encoder.model.config.similarity).vector_similarity
    model: dict[str, Any] = {"model_type": "SentenceTransformer", "prompts": {"query": "", "document": ""}}
    model |= {"default_prompt_name": None, "similarity_fn_name": similarity}
    for name, value in ((MODULE_FILE, _MODULE), (MODEL_FILE, model), (MODULES_FILE, _MODULES)):
        write_text(target / name, json.dumps(value, indent=2) + "\n")
    return target


class Texts(ProcessorMixin):
    """Hands texts on as they are: how they are cut depends on whether they are queries or documents."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def from_pretrained(cls, *_: Any, **__: Any) -> Self:
        """Nothing is loaded."""
        return cls()

    def save_pretrained(self, *_: Any, **__: Any) -> list[str]:
        """Nothing is written: the encoder writes its tokenizer."""
        return []

    def __call__(self, text: Iterable[str], **_: Any) -> dict[str, Any]:
        """The texts under the name that :meth:`TextEncoder.forward` takes them by."""
        return {"texts": list(text)}


class TextEncoder(nn.Module):
    """An encoder as transformers' ``AutoModel`` gives it: texts in, vectors out."""

    config_class = DocumentConfig

    def __init__(self, encoder: DocumentEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        # As a part of this module the model moves where sentence-transformers moves it.
        self.model = encoder.model

    @classmethod
    def from_pretrained(
        cls, name: str, *, dtype: str | torch.dtype = "float32", revision: str | None = None, **_: Any
    ) -> Self:
        """Load an encoder as :meth:`DocumentEncoder.from_pretrained` does, from safetensors alone."""
        return cls(
            DocumentEncoder.from_pretrained(
                name,
                device="cpu",
                dtype=str(dtype).removeprefix("torch."),  # type: ignore[arg-type]
                revision=revision,
            )
        )

    @property
    def config(self) -> DocumentConfig:
        """Configuration of the model, with the width of its vectors where sentence-transformers looks for it."""
        config = copy.copy(cast(DocumentConfig, self.model.config))
        config.projection_dim = self.encoder.hidden_size
        return config

    @property
    def device(self) -> torch.device:
        """The device that the model runs on."""
        return self.model.device

    def save_pretrained(self, folder: str | Path, **_: Any) -> None:
        """Write the encoder."""
        self.encoder.save_pretrained(folder)

    def forward(self, texts: list[str], task: str | None = None, return_dict: bool = True) -> dict[str, Tensor]:
        """Encode texts, as queries where the ``task`` is ``query``.

        Returns:
            ``vectors``, ``(texts, hidden)``; zeros for a text without a character.
        """
        rows = [row for row, text in enumerate(texts) if text.strip()]
        documents = [Document.from_text(texts[row]) for row in rows]
        if task == "query":
            found = self.encoder.encode_query(documents, convert_to_tensor=True)
        else:
            found = self.encoder.encode(documents, convert_to_tensor=True, show_progress_bar=False, workers=0)
        vectors = torch.zeros(len(texts), self.encoder.hidden_size)
        vectors[rows] = found
        return {"vectors": vectors.to(self.device)}


AutoConfig.register(DocumentConfig.model_type, DocumentConfig, exist_ok=True)
AutoModel.register(DocumentConfig, TextEncoder, exist_ok=True)
AutoProcessor.register(DocumentConfig, Texts, exist_ok=True)
