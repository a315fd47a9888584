"""graphdoc evaluate all: models on any number of sets, with a verdict for every measure of every set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ..documents.readers import ReadingReport
from ..errors import EvaluationError
from .evaluate import Candidate, load_candidates, show
from .options import COUNT, File, Json, MeasuredModels
from .output import Outputs
from .printing import Column, Table, names, shown, signed_interval

if TYPE_CHECKING:
    from ..evaluation import Estimate
    from ..evaluation.sets import MeasuredSet

_MARKS = {"better": "+", "worse": "-", "no difference": "="}


@dataclass(frozen=True)
class Cell:
    """One measure of one row on one set, and how far it is ahead of the untrained mean; None for that itself."""

    estimate: Estimate
    difference: Estimate | None

    def __str__(self) -> str:
        return shown(self.estimate.value) + (f" {_MARKS[self.difference.verdict]}" if self.difference else "")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        difference = self.difference
        return {
            **self.estimate.to_dict(),
            "difference": difference and difference.to_dict(),
            "verdict": difference and difference.verdict,
        }


Lines = Mapping[tuple[str, str], Mapping[str, Cell]]
"""By set and measure, and by row."""


def evaluate_all(
    sets: str,
    /,
    *,
    only: tuple[str, ...] = (),
    seeds: Annotated[int, COUNT] = 20,
    resamples: Annotated[int, COUNT] = 1000,
    baseline: str | None = None,
    json: Json = None,
    markdown: File = None,
    model: MeasuredModels = MeasuredModels(),
) -> None:
    """Measure models on sets of documents in one table: labels, pairs and rankings, with verdicts.

    Beside the models stand TF-IDF, the untrained mean of their backbone, and that mean less the mean of the documents
    for fitting. A model is better or worse than the untrained mean where 95 % of paired bootstrap resamples agree.

    Usage examples:
      graphdoc evaluate all sets.yaml --model mini
      graphdoc evaluate all configs/evaluation/shared.yaml --only newsgroups20 --model mini --model runs/a/model
      graphdoc evaluate all sets.yaml --model mini --markdown table.md --json scores.json

    Args:
        sets: YAML file: a list "sets", each with a name, documents (with a field "split") or train and test, and what
            there is of pairs and judged (a folder in BEIR's layout)
        only: measure the set of this name alone; may be repeated
        seeds: seeds of k-means
        resamples: bootstrap resamples
        baseline: where the models' backbone is, if not under the name they know
        markdown: write the table as Markdown
    """
    from ..evaluation.sets import SetFile, read_set
    from ..settings.loading import load_settings

    settings_of = {settings.name: settings for settings in load_settings(SetFile, sets).sets}
    if unknown := set(only) - settings_of.keys():
        raise EvaluationError(f"--only {min(unknown)!r} is no set of the file")
    chosen = [settings for name, settings in settings_of.items() if not only or name in only]
    sources = [source for one in chosen for source in (*one.documents, *one.train, *one.test, one.pairs, one.judged)]
    outputs = Outputs([sets, *sources], json=json, markdown=markdown)

    report = ReadingReport()
    candidates, notes = load_candidates(model, baseline)
    lines: dict[tuple[str, str], Mapping[str, Cell]] = {}
    for settings in chosen:
        data = read_set(settings, candidates[-1].encoder, report)
        measured = _measure(data, candidates, {"seeds": seeds, "resamples": resamples})
        for measure in next(iter(measured.values()))[1]:
            lines[settings.name, measure] = {
                row: Cell(
                    estimates[measure], None if base is None else estimates[measure] - measured[base][1][measure]
                )
                for row, (base, estimates) in measured.items()
            }
        notes.append(f"{settings.name}: {data.sizes}")
    notes += [
        f"+ better, - worse, = no difference to the untrained mean: 95 % of {resamples:,} paired bootstrap "
        "resamples of documents, pairs or queries",
        f"NMI and purity: mean over {seeds} seeds of k-means; 10-NN: accuracy by the ten nearest documents "
        "for fitting",
        *_summary(lines, candidates),
    ]
    content = {
        "format": "graphdoc.sets/1",
        "sets": [settings.as_values() for settings in chosen],
        "models": {candidate.name: candidate.encoder.describe() for candidate in candidates},
        "seeds": seeds,
        "bootstrap": {"resamples": resamples, "seed": 0, "confidence": 0.95},
        "lines": [
            {"set": name, "measure": measure, "cells": {row: cell.to_dict() for row, cell in cells.items()}}
            for (name, measure), cells in lines.items()
        ],
    }
    rows = list(dict.fromkeys(row for cells in lines.values() for row in cells))
    table, ahead = (
        Table([names("set"), names("measure"), *(Column(row, write) for row in rows)])
        for write in (str, signed_interval)
    )
    for (name, measure), cells in lines.items():
        table.add(name, measure, *(cells[row] for row in rows))
        ahead.add(name, measure, *(cells[row].difference for row in rows))

    def write_markdown(path: str) -> None:
        from ..runtime.files import write_text
        from ..runtime.text import markdown

        text = "\n".join(f"- {markdown(note)}" for note in notes)
        write_text(path, f"{table.markdown()}\nAhead of the untrained mean:\n\n{ahead.markdown()}\n{text}\n")

    show(outputs, content, [table], notes, report, markdown=write_markdown)


def _measure(
    data: MeasuredSet, candidates: Sequence[Candidate], how: Mapping[str, int]
) -> dict[str, tuple[str | None, dict[str, Estimate]]]:
    """What is measured of every row, and the untrained mean that it is compared with; None for that itself.

    Passages that are alike are encoded once.
    """
    from ..evaluation.baselines import UNTRAINED, SharedPassages
    from ..evaluation.sets import ROWS, EncoderVectors

    shared = SharedPassages(data.with_passages_of, data)
    first = candidates[0]
    measured = {
        name: (first.name if first.role == "untrained" else None, data.measure(row.make(data, first.encoder), **how))
        for name, row in ROWS.items()
        if not row.of_backbone
    }
    for candidate in candidates:
        ready = shared.of(candidate.encoder)
        if candidate.role == "model":
            measured[candidate.name] = candidate.base, ready.measure(EncoderVectors(candidate.encoder), **how)
            continue
        for name, row in ROWS.items():
            if row.of_backbone:
                base = None if name == UNTRAINED else candidate.name
                estimates = ready.measure(row.make(ready, candidate.encoder), **how)
                measured[candidate.name.replace(UNTRAINED, name)] = base, estimates
    return measured


def _summary(lines: Lines, candidates: Sequence[Candidate]) -> list[str]:
    """How many measures of every model are better or worse."""
    result = []
    for candidate in candidates:
        differences = [cells[candidate.name].difference for cells in lines.values()]
        verdicts = Counter(difference.verdict for difference in differences if difference is not None)
        if total := sum(verdicts.values()):
            result.append(
                f"{candidate.name}: better in {verdicts['better']} of {total} measures, worse in {verdicts['worse']}, "
                f"no difference in {verdicts['no difference']}"
            )
    return result
