"""The model card that goes with every checkpoint."""

from __future__ import annotations

from pathlib import Path

from ..modeling import DocumentConfig
from ..runtime.text import markdown

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
