"""How a model was trained, for its card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from ..corpus.report import CorpusReport
from ..settings.run import RunSettings


def training_card(
    settings: RunSettings, how: str, record: Mapping[str, Any], corpus: CorpusReport, results: Mapping[str, Any]
) -> str:
    """Sections of a model card on data, settings and results of a run.

    Args:
        settings: the settings of the run.
        how: how the model was trained, in a sentence.
        record: with what it was made.
        corpus: what was read and kept of the corpus.
        results: what was measured so far.

    Returns:
        Markdown.
    """
    lines = [
        "## Training",
        "",
        how,
        "",
        f"Data: {settings.corpus.name}. {corpus.summary()}",
        "",
        f"{record['trained_weights']:,} of {record['weights']:,} weights were trained, seed {record['seed']}, "
        f"git revision {record['git_revision'] or 'unknown'}.",
        "",
    ]
    if results:
        lines += ["## Results", "", "```json", json.dumps(dict(results), indent=1), "```", ""]
    values = yaml.safe_dump(settings.as_values(), sort_keys=False, allow_unicode=True).rstrip()
    return "\n".join([*lines, "## Settings", "", "```yaml", values, "```", ""])
