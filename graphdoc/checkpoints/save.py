"""Saving checkpoints with their model cards."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from safetensors import SafetensorError
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ..errors import OutputError
from ..modeling import DocumentConfig, DocumentModel
from ..runtime.text import markdown
from .contents import (
    CARD_FILE,
    CONFIG_FILE,
    INDEX_FILE,
    MODEL_FILES,
    MODEL_WEIGHTS,
    SUBTOPIC_FOLDER,
    TOKENIZER_FILE,
    UNFINISHED_FILE,
    UPDATES_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    is_checkpoint,
    quiet_libraries,
    read_json,
    summary,
)
from .load import save_updates, save_vocabulary

# A card is to be read; the configuration has all names.
MOST_CLASSES = 30
# What a checkpoint consists of, but for the model of subtopics: one saved over another leaves none of it behind.
_FILES = frozenset(
    (CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE, UPDATES_FILE, VOCABULARY_FILE, CARD_FILE, TOKENIZER_FILE, "tokenizer.json")
)
_LIBRARY = "library_name: graphdoc"


def model_card(config: DocumentConfig, name: str, training: str = "") -> str:
    """The model card of a checkpoint, Markdown with the hub's front matter; ``training`` are further sections."""
    rows = config.describe()
    rows["vector"] = f"{config.hidden_size + (config.words.size if config.words else 0)} numbers"
    task, documents = "feature-extraction", '[Document.from_file("a.md"), Document.from_file("b.md")]'
    use = f"vectors = encoder.encode({documents})"
    if config.labels:
        task, use = "text-classification", f"predictions = encoder.predict({documents})"
        classes = ", ".join(label[:60] for label in config.labels[:MOST_CLASSES])
        more = f" and {len(config.labels) - MOST_CLASSES:,} more" if len(config.labels) > MOST_CLASSES else ""
        kind = "any number of" if config.multi_label else "one of"
        read = ", by vectors and words" if config.classifier_words else ""
        rows["classes"] = f"{kind} {len(config.labels):,}{read}: {classes}{more}"
    if config.matching is not None:
        use = 'match = encoder.match(Document.from_file("a.md"), Document.from_file("b.md"))'
    state = "**It was not trained to compare documents**: the parts above the passage encoder are untrained."
    if config.trained:
        state = "Its document vectors are meant to be compared with each other."
    base = f"base_model: {config.backbone}\n" if config.backbone else ""
    cells = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in rows.items()
    }
    table = "\n".join(f"| {name} | {markdown(cell)} |" for name, cell in cells.items())
    return f"""---
{_LIBRARY}
pipeline_tag: {task}
tags: [graphdoc, document-embeddings, long-documents, graph-attention]
{base}---
# {name}

A graphdoc document encoder. {state}

| setting | value |
|---|---|
{table}

```python
from graphdoc import Document, DocumentEncoder

encoder = DocumentEncoder.from_pretrained("path/to/this/folder")
{use}
```
{training and chr(10) + training}"""


def save_checkpoint(
    model: DocumentModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: str | Path,
    *,
    name: str,
    weights: dict[str, Tensor] | None = None,
    updates: dict[str, Tensor] | None = None,
    training: str = "",
) -> Path:
    """Write a checkpoint: configuration, weights, tokenizer and model card.

    Everything is written next to the folder first and moved in file by file, the configuration last, so that an
    interrupted save never looks whole. A checkpoint that was there is replaced as a whole; other files stay.

    Args:
        model: the model.
        tokenizer: tokenizer of its passage encoder.
        folder: where to write; made if missing.
        name: what the model card calls it.
        weights: weights by name to write instead of the model's own.
        updates: what was trained on top of the backbone (see :mod:`graphdoc.checkpoints.load`), to write instead of
            all weights; the backbone is then loaded by its name.
        training: sections of the model card on how it was trained.

    Raises:
        OutputError: the folder cannot be written, or has a file that would be replaced and is not a checkpoint's.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=target) as temporary, quiet_libraries():
            written = Path(temporary)
            if updates is None:
                model.save_pretrained(written, state_dict=weights)
                tokenizer.save_pretrained(written)
            else:
                model.config.save_pretrained(written)
                save_updates(model, updates, written / UPDATES_FILE)
            if model.subtopic_folder is not None:
                _copy_model(model.subtopic_folder, written / SUBTOPIC_FOLDER)
            save_vocabulary(model, written)
            card = written / CARD_FILE
            card.write_text(model_card(cast(DocumentConfig, model.config), name, training), encoding="utf-8")
            for path in written.glob(MODEL_WEIGHTS):
                # safetensors writes for the owner alone; others may read a checkpoint as they may its other files.
                path.chmod(card.stat().st_mode)
            _require_replaceable(target, {*_FILES, SUBTOPIC_FOLDER, *(path.name for path in written.iterdir())})
            _move_in(written, target)
    except (OSError, SafetensorError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or summary(error)
        raise OutputError(f"checkpoint folder {target} cannot be written: {reason}") from error
    return target


def _require_replaceable(target: Path, names: Iterable[str]) -> None:
    unfinished = read_json(target / UNFINISHED_FILE).get("model_type") == DocumentConfig.model_type
    is_own = unfinished or is_checkpoint(target)
    for path in sorted(target / name for name in names):
        if path.name == CARD_FILE:
            replaceable = _is_own_card(path)
        elif path.name == SUBTOPIC_FOLDER:
            replaceable = is_own and is_checkpoint(path) and not path.is_symlink()
        else:
            replaceable = is_own and not path.is_dir()
        if (path.exists() or path.is_symlink()) and not replaceable:
            raise OutputError(
                f"{path} was not written by graphdoc and would be replaced; move it away, or save into another folder"
            )


def _is_own_card(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return text.startswith("---\n") and _LIBRARY in text.split("\n---", 1)[0].splitlines()


def _copy_model(source: Path, target: Path) -> None:
    """Copy the files of a checkpoint, whatever else lies next to them."""
    target.mkdir()
    for pattern in (*MODEL_FILES, MODEL_WEIGHTS, CARD_FILE):
        for path in filter(Path.is_file, source.glob(pattern)):
            shutil.copyfile(path, target / path.name)


def _move_in(written: Path, target: Path) -> None:
    """Replace the checkpoint of a folder; without a configuration nothing is loaded from it until it is whole."""
    (written / CONFIG_FILE).replace(target / UNFINISHED_FILE)
    for name in (CONFIG_FILE, *sorted(_FILES - {CONFIG_FILE})):
        (target / name).unlink(missing_ok=True)
    shutil.rmtree(target / SUBTOPIC_FOLDER, ignore_errors=True)
    for path in written.iterdir():
        path.replace(target / path.name)
    (target / UNFINISHED_FILE).replace(target / CONFIG_FILE)
