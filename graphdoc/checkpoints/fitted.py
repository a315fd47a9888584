"""What a model was fitted to, in its checkpoint: tensors beside the weights, and the vocabulary as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import ModelError
from ..modeling import DocumentModel
from .quiet import first_line

VOCABULARY_FILE = "lexical.json"
FORMAT = "graphdoc.vocabulary/1"
_PARTS = {"centre": "centre", "lexical": "lexical part"}


def is_fitted(key: str) -> bool:
    """Whether a weight is learned by fitting."""
    return key.partition(".")[0] in _PARTS


def require_fitted(missing: Iterable[str], name: str) -> None:
    """Refuse to load a checkpoint with parts that it was never fitted with.

    Args:
        missing: weights that the checkpoint does not have.
        name: what to call it.

    Raises:
        ModelError: a part is missing.
    """
    parts = sorted({key.partition(".")[0] for key in missing if is_fitted(key)})
    if parts:
        raise ModelError(
            f"{name} has no {_PARTS[parts[0]]}; fit one to documents of yours (graphdoc fit, or encoder.fit), or "
            f"leave {parts[0]} as it is"
        )


def fitted_buffers(model: DocumentModel) -> Iterator[Tensor]:
    """The tensors that a model was fitted with."""
    return (tensor for name, tensor in model.named_buffers() if is_fitted(name))


def vocabulary_hash(terms: Sequence[str]) -> str:
    """Hash of a vocabulary."""
    return hashlib.blake2b("\n".join(terms).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def save_vocabulary(model: DocumentModel, folder: Path) -> None:
    """Write the vocabulary of a model, where it has one."""
    if model.lexical is not None and not model.lexical.settings.hashed:
        content = {"format": FORMAT, "terms": list(model.lexical.vocabulary)}
        (folder / VOCABULARY_FILE).write_text(json.dumps(content, ensure_ascii=True), encoding="utf-8")


def load_vocabulary(model: DocumentModel, folder: Path, name: str) -> None:
    """Give a model the vocabulary of its checkpoint, where it needs one.

    Raises:
        ModelError: the file is missing or damaged, or belongs to another model.
    """
    if model.lexical is None or model.lexical.settings.hashed:
        return
    path = folder / VOCABULARY_FILE
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
        terms = values["terms"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(
            f"{VOCABULARY_FILE} of checkpoint {name} cannot be read: {first_line(error)}; save or fetch it again"
        ) from error
    is_list = isinstance(terms, list) and all(isinstance(term, str) for term in terms)
    if not is_list or vocabulary_hash(terms) != model.lexical.settings.vocabulary:
        raise ModelError(
            f"{VOCABULARY_FILE} of checkpoint {name} is not the vocabulary that its configuration names; take all "
            "files from the same save"
        )
    model.lexical.vocabulary = terms
