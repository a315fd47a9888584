"""graphdoc evaluate all: models on any number of sets, with a verdict for every measure of every set."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import EvaluationError
from .arguments import add_model_arguments, positive, whole
from .evaluate import Candidate, add_baseline_argument, load_candidates, show
from .outputs import JSON, Outputs
from .tables import Column, Table, names, shown, signed_interval

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder
    from ..evaluation import Estimate
    from ..evaluation.sets import MeasuredSet

HELP = "models on any number of sets: labels, pairs and rankings in one table, with verdicts"
DESCRIPTION = """Measure models on sets of documents in one table: k-means and nearest neighbours against labels, the
area under the curve of pairs, with the given negatives and with random ones, and rankings of queries.

Beside the models stand TF-IDF, the untrained mean of their backbone, and that mean less the mean of the documents for
fitting. A model is better or worse than the untrained mean where 95 % of paired bootstrap resamples agree.

The file of sets is YAML: a list "sets", each with a name, documents (with a field "split") or train and test, and what
there is of pairs and judged (a folder in BEIR's layout)."""
EPILOG = """examples:
  graphdoc evaluate all --sets sets.yaml --model mini
  graphdoc evaluate all --sets configs/evaluation/shared.yaml --only newsgroups20 --model mini --model runs/a/model
  graphdoc evaluate all --sets sets.yaml --model mini --markdown table.md --json scores.json
"""

OUTPUTS = Outputs(
    json=("scores.json", JSON),
    csv=("scores.csv", "write one line for every measure and model as CSV"),
    markdown=("scores.md", "write the table as Markdown"),
)
WORDS = "TF-IDF"
_MARKS = {"better": "+", "worse": "-", "no difference": "="}


@dataclass(frozen=True)
class Cell:
    """One measure of one row on one set, and the untrained mean that it is compared with; None for that itself."""

    estimate: Estimate
    against: Estimate | None

    @property
    def difference(self) -> Estimate | None:
        """By how much it is ahead of the untrained mean."""
        return None if self.against is None else self.estimate - self.against

    def __str__(self) -> str:
        difference = self.difference
        return shown(self.estimate.value) + ("" if difference is None else f" {_MARKS[difference.verdict]}")

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    group = parser.add_argument_group("sets and measures")
    group.add_argument("--sets", metavar="FILE", required=True, help="YAML file of the sets")
    group.add_argument("--only", metavar="NAME", action="append", help="measure this set alone; may be repeated")
    group.add_argument("--seeds", type=positive, default=20, metavar="N", help="seeds of k-means (default: 20)")
    group.add_argument(
        "--resamples", type=whole, default=1000, metavar="N", help="bootstrap resamples (default: 1000)"
    )
    group.add_argument("--seed", type=whole, default=0, metavar="N", help="draws resamples and random pairs")
    add_baseline_argument(group)
    OUTPUTS.add_to(parser)
    add_model_arguments(parser, several=True, measures=True)


def run(options: argparse.Namespace) -> None:
    """Read, encode, measure, print and write."""
    from ..documents.readers import ReadingReport
    from ..evaluation.sets import SetFile, read_set
    from ..settings.loading import load_settings

    sets = load_settings(SetFile, options.sets).sets
    if unknown := set(options.only or ()) - {settings.name for settings in sets}:
        raise EvaluationError(f"--only {min(unknown)!r} is no set of the file")
    chosen = [settings for settings in sets if options.only is None or settings.name in options.only]
    sources = [source for one in chosen for source in (*one.documents, *one.train, *one.test, one.pairs, one.judged)]
    OUTPUTS.prepare(options, [options.sets, *sources])

    report = ReadingReport()
    candidates, notes = load_candidates(options)
    lines: dict[tuple[str, str], Mapping[str, Cell]] = {}
    for settings in chosen:
        data = read_set(settings, candidates[-1].encoder, report)
        measured = _measure(data, candidates, options)
        bases = _bases(candidates)
        for measure in measured[WORDS]:
            lines[settings.name, measure] = {
                name: Cell(estimates[measure], None if (base := bases[name]) is None else measured[base][measure])
                for name, estimates in measured.items()
            }
        notes.append(f"{settings.name}: {data.sizes}")
    notes += [
        f"+ better, - worse, = no difference to the untrained mean: 95 % of {options.resamples:,} paired bootstrap "
        "resamples of documents, pairs or queries",
        f"NMI and purity: mean over {options.seeds} seeds of k-means; 10-NN: accuracy by the ten nearest documents "
        "for fitting",
        *_summary(lines, candidates),
    ]
    content = {
        "format": "graphdoc.sets/1",
        "sets": [settings.as_values() for settings in chosen],
        "models": {candidate.name: candidate.encoder.describe() for candidate in candidates},
        "seeds": options.seeds,
        "bootstrap": {"resamples": options.resamples, "seed": options.seed, "confidence": 0.95},
        "lines": [
            {"set": name, "measure": measure, "cells": {row: cell.to_dict() for row, cell in cells.items()}}
            for (name, measure), cells in lines.items()
        ],
    }
    table = _table(lines)
    show(
        options,
        OUTPUTS,
        content,
        [table],
        notes,
        report,
        csv=_long(lines).write_csv,
        markdown=lambda path: _write_markdown(path, table, lines, notes),
    )


def _bases(candidates: Sequence[Candidate]) -> dict[str, str | None]:
    """The untrained mean that every row is compared with: that of a model's own backbone."""
    from ..evaluation.baselines import CENTRED, UNTRAINED

    untrained = [candidate.name for candidate in candidates if candidate.role == "untrained"]
    return {
        WORDS: untrained[0] if untrained else None,
        **{candidate.name: candidate.base for candidate in candidates},
        **{name.replace(UNTRAINED, CENTRED): name for name in untrained},
    }


def _measure(
    data: MeasuredSet, candidates: Sequence[Candidate], options: argparse.Namespace
) -> dict[str, dict[str, Estimate]]:
    """What is measured of every row; passages that are alike are encoded once."""
    from ..evaluation.baselines import CENTRED, UNTRAINED, has_same_passage_vectors, untrained_mean

    how = {"seeds": options.seeds, "resamples": options.resamples, "seed": options.seed}
    measured = {WORDS: data.measure_words(**how)}
    encoded: list[tuple[DocumentEncoder, MeasuredSet]] = []

    def with_passages(encoder: DocumentEncoder) -> MeasuredSet:
        for leader, found in encoded:
            if has_same_passage_vectors(leader, encoder):
                return found
        if encoder.model.structural_embeddings is not None or encoder.model.config.matching is not None:
            return data
        encoded.append((encoder, data.with_passages_of(encoder)))
        return encoded[-1][1]

    for candidate in candidates:
        ready = with_passages(candidate.encoder)
        measured[candidate.name] = ready.measure(candidate.encoder, **how)
        if candidate.role == "untrained":
            encoder = untrained_mean(candidate.encoder, options.baseline, device=options.device, dtype=options.dtype)
            encoder.fit(ready.train or ready.documents, show_progress=False)
            measured[candidate.name.replace(UNTRAINED, CENTRED)] = ready.measure(encoder, **how)
    return measured


def _table(lines: Lines) -> Table:
    rows = dict.fromkeys(row for cells in lines.values() for row in cells)
    result = Table([names("set"), names("measure"), *(Column(row, str) for row in rows)])
    for (name, measure), cells in lines.items():
        result.add(name, measure, *(cells[row] for row in rows))
    return result


def _long(lines: Lines) -> Table:
    """One line for every measure and row, with intervals."""
    result = Table(["set", "measure", "row", "value", "low", "high", "difference", "low", "high", "verdict"])
    for (name, measure), cells in lines.items():
        for row, cell in cells.items():
            cells_of: list[Any] = []
            for estimate in (cell.estimate, cell.difference):
                value = None if estimate is None else estimate.value
                cells_of += [value, *((estimate and estimate.interval) or (None, None))]
            result.add(name, measure, row, *cells_of, cell.difference and cell.difference.verdict)
    return result


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


def _write_markdown(path: str, table: Table, lines: Lines, notes: Sequence[str]) -> None:
    from ..runtime.files import write_text
    from ..runtime.text import markdown

    rows = [column.heading for column in table.columns[2:]]
    ahead = Table([names("set"), names("measure"), *(Column(row, signed_interval) for row in rows)])
    for (name, measure), cells in lines.items():
        ahead.add(name, measure, *(cells[row].difference for row in rows))
    text = "\n".join(f"- {markdown(note)}" for note in notes)
    write_text(path, f"{table.markdown()}\nAhead of the untrained mean:\n\n{ahead.markdown()}\n{text}\n")
