"""How a model was trained, for its card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from .configuration import as_values
from .corpus_report import CorpusReport
from .pretraining_settings import PretrainingSettings


def training_card(
    settings: PretrainingSettings, record: Mapping[str, Any], corpus: CorpusReport, results: Mapping[str, Any]
) -> str:
    """Sections of a model card on data, settings and results of a pretraining run.

    Args:
        settings: the settings of the run.
        record: with what it was made.
        corpus: what was read and kept of the corpus.
        results: what was measured so far.

    Returns:
        Markdown.
    """
    loss, training = settings.loss, settings.training
    lines = [
        "## Training",
        "",
        f"Contrastive pretraining between sub-documents (split `{settings.split}`) without labels: InfoNCE on "
        f"{loss.similarity} similarity at temperature {loss.temperature:g}, batches of {training.batch_size:,} "
        f"documents, {training.epochs:g} epochs, {settings.model.tune} passage encoder.",
        "",
        f"Data: {settings.corpus.name}. {corpus.summary()}",
        "",
        f"{record['trained_weights']:,} of {record['weights']:,} weights were trained, seed {record['seed']}, "
        f"git revision {record['git_revision'] or 'unknown'}.",
        "",
    ]
    if results:
        lines += ["## Results", "", "```json", json.dumps(dict(results), indent=1), "```", ""]
    values = yaml.safe_dump(as_values(settings), sort_keys=False, allow_unicode=True).rstrip()
    return "\n".join([*lines, "## Settings", "", "```yaml", values, "```", ""])
