"""Saving checkpoints with their model cards, on disk and on the hub."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from safetensors import SafetensorError
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ..errors import OutputError
from ..modeling import DocumentConfig, DocumentModel
from ..runtime.text import markdown
from .contents import (
    CONFIG_FILE,
    INDEX_FILE,
    MODEL_FILES,
    MODEL_WEIGHTS,
    SUBTOPIC_FOLDER,
    TOKENIZER_FILE,
    UNFINISHED_FILE,
    UPDATES_FILE,
    WEIGHTS_FILE,
    first_line,
    quiet_transformers,
    read_json,
)
from .load import VOCABULARY_FILE, save_updates, save_vocabulary

# A card is to be read; the configuration has all names.
MOST_CLASSES = 30
_LIBRARY = "library_name: graphdoc"
_DOCUMENTS = '[Document.from_file("a.md"), Document.from_file("b.md")]'


def model_card(config: DocumentConfig, name: str, training: str = "") -> str:
    """Write the model card of a checkpoint as Markdown with the hub's front matter.

    Args:
        config: what the model is made of.
        name: name of the model.
        training: how it was trained, as Markdown sections.

    Returns:
        The text of the card.
    """
    graph = (
        f"{config.graph_layers} graph attention layers, {config.graph_heads} heads, on the `{config.graph_kind}` graph"
        if config.graph_layers
        else "no graph layers"
    )
    projection = f"projected to {config.projection_size}" if config.projection_size else "not projected"
    state = (
        "Its document vectors are meant to be compared with each other."
        if config.trained
        else "**It was not trained to compare documents**: the parts above the passage encoder are untrained."
    )
    task, classes, use = "feature-extraction", "", f"vectors = encoder.encode({_DOCUMENTS})"
    if config.labels:
        task, classes = "text-classification", _classes(config)
        use = f"predictions = encoder.predict({_DOCUMENTS})"
    if config.matching is not None:
        use = 'match = encoder.match(Document.from_file("a.md"), Document.from_file("b.md"))'
    passages = {
        "passage": f"about {config.passage_words} words, at most {config.passage_tokens} tokens",
        "chunk": f"chunks that fill {config.passage_tokens} tokens",
        "sentence": f"sentences, at most {config.passage_tokens} tokens",
    }[config.unit]
    details = ", ".join(f"{name} {value}" for name, value in config.readout_class.describe(config).items())
    readout = f"`{config.readout}`{details and f': {details}'}"
    centre = ""
    if config.centre is not None:
        learned = "; ".join(markdown(name, 200) for name in config.centre) or "a corpus"
        centre = (
            f"| centre | the mean passage vector of {learned}, taken off unit-length passages, then to unit length |\n"
        )
    lexical, words = "", config.words
    if words is not None:
        learned = "; ".join(markdown(name, 200) for name in words.corpora) or "a corpus"
        rows = f"{words.terms:,} {'buckets' if words.hashed else 'terms'}"
        kind = "latent semantic analysis" if words.projection == "decomposition" else "a random projection of tf-idf"
        lexical = (
            f"| lexical part | {words.numbers} numbers of {kind} over {rows}, language "
            f"`{words.language}`, learned of {learned}; length {config.lexical_weight:g} beside 1 |\n"
        )
    structure = "; structural embeddings of section and chunk" if config.structural_embeddings else ""
    base = f"base_model: {config.backbone}\n" if config.backbone else ""
    return f"""---
{_LIBRARY}
pipeline_tag: {task}
tags: [graphdoc, document-embeddings, long-documents, graph-attention]
{base}---
# {name}

A graphdoc document encoder. {state}

| part | setting |
|---|---|
| passage encoder | {config.backbone or "see config.json"}, `{config.pooling}` pooling, {projection}{structure} |
| passages | {passages}, {config.max_passages or "all"} per document |
| graph | {graph} |
{centre}| readout | {readout} |
{lexical}| similarity | {config.similarity} |
| vector | {config.hidden_size + (words.numbers if words else 0)} numbers |
{classes}
```python
from graphdoc import Document, DocumentEncoder

encoder = DocumentEncoder.from_pretrained("path/to/this/folder")
{use}
```
{training and chr(10) + training}"""


def is_own_card(path: Path) -> bool:
    """Whether a file is the model card of a checkpoint, by its front matter."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return text.startswith("---\n") and _LIBRARY in text.split("\n---", 1)[0].splitlines()


def _classes(config: DocumentConfig) -> str:
    """The row of the table that names the classes."""
    names = config.labels or []
    shown = ", ".join(markdown(name, 60) for name in names[:MOST_CLASSES])
    more = f" and {len(names) - MOST_CLASSES:,} more" if len(names) > MOST_CLASSES else ""
    kind = "any number of" if config.multi_label else "one of"
    read = ", by vectors and words" if config.classifier_words else ""
    return f"| classes | {kind} {len(names):,}{read}: {shown}{more} |\n"


CARD_FILE = "README.md"
# What a checkpoint may consist of: one that is saved over another leaves none of these behind.
_FILES = frozenset(
    (
        *(CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE, UPDATES_FILE, VOCABULARY_FILE),
        *(CARD_FILE, TOKENIZER_FILE, "tokenizer.json"),
    )
)
_FOLDERS = frozenset((SUBTOPIC_FOLDER,))


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

    Everything is written beside the folder first and moved in file by file, the configuration last, so that an
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

    Returns:
        The folder.

    Raises:
        OutputError: the folder cannot be written, or has a file that would be replaced and is not a checkpoint's.
    """
    target = Path(folder)
    try:
        _require_own(target, _FILES | _FOLDERS)
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=target) as temporary, quiet_transformers():
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
            for path in written.glob("*.safetensors"):
                # safetensors writes for the owner alone; others may read a checkpoint as they may its other files.
                path.chmod(card.stat().st_mode)
            _require_own(target, (path.name for path in written.iterdir()))
            _move_in(written, target)
    except (OSError, SafetensorError, ValueError) as error:
        # A ValueError is a name that no file can have, or that the tokenizer's writer cannot.
        if isinstance(error, ValueError) and _is_usual(str(target)):
            raise
        reason = (error.strerror if isinstance(error, OSError) else None) or first_line(error)
        raise OutputError(
            f"checkpoint folder {target} cannot be written: {reason}; choose another place or free some space"
        ) from error
    return target


def upload(save: Callable[[str], Any], repository: str, private: bool, message: str) -> str:
    """Upload a checkpoint.

    Args:
        save: writes the checkpoint into a folder.
        repository: ``owner/name``; made if it is missing.
        private: whether a new repository is private.
        message: commit message.

    Returns:
        The address of the commit.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message))


def _is_usual(name: str) -> bool:
    """Whether a name of a folder has neither NUL characters nor bytes that are no UTF-8."""
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def _require_own(target: Path, names: Iterable[str]) -> None:
    """Refuse to replace files that are not a checkpoint's."""
    configs = (read_json(target / file) for file in (CONFIG_FILE, UNFINISHED_FILE))
    is_own = any(values.get("model_type") == DocumentConfig.model_type for values in configs)
    for path in sorted(target / name for name in names):
        if path.name in _FOLDERS:
            is_model = read_json(path / CONFIG_FILE).get("model_type") == DocumentConfig.model_type
            replaceable = is_own and is_model and not path.is_symlink()
        else:
            replaceable = is_own_card(path) if path.name == CARD_FILE else is_own and not path.is_dir()
        if (path.exists() or path.is_symlink()) and not replaceable:
            raise OutputError(
                f"{path} was not written by graphdoc and would be replaced; move it away, or save into another folder"
            )


def _copy_model(source: Path, target: Path) -> None:
    """Copy the files of a checkpoint, whatever else lies beside them."""
    target.mkdir()
    for pattern in (*MODEL_FILES, MODEL_WEIGHTS, CARD_FILE):
        for path in source.glob(pattern):
            if path.is_file():
                shutil.copyfile(path, target / path.name)


def _move_in(written: Path, target: Path) -> None:
    """Replace the checkpoint of a folder; without a configuration nothing is loaded from it meanwhile."""
    (written / CONFIG_FILE).replace(target / UNFINISHED_FILE)
    for name in (CONFIG_FILE, *sorted(_FILES - {CONFIG_FILE})):
        (target / name).unlink(missing_ok=True)
    for name in _FOLDERS:
        shutil.rmtree(target / name, ignore_errors=True)
    for path in (*written.iterdir(), target / UNFINISHED_FILE):
        path.replace(target / (CONFIG_FILE if path.name == UNFINISHED_FILE else path.name))
