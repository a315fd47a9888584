"""graphdoc evaluate all: models on any number of sets, with a verdict for every measure of every set."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive, whole
from .outputs import JSON, Outputs, write_json
from .set_files import chosen_sets, read_set
from .summaries import list_left_out, print_lines
from .tables import Column, Table, names, shown, signed_interval

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder
    from ..evaluation.measured_set import MeasuredSet
    from ..evaluation.outcomes import Outcome, Verdict

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
WORDS, UNTRAINED, CENTRED = "TF-IDF", "untrained mean", "centred mean"
_MARKS = {"better": "+", "worse": "-", "no difference": "="}


@dataclass(frozen=True)
class Cell:
    """One measure of one way on one set.

    Args:
        outcome: the measure.
        against: the outcome of the untrained mean on the same documents; None for that itself, or without one.
    """

    outcome: Outcome
    against: Outcome | None

    @property
    def verdict(self) -> Verdict | None:
        """Whether it is better than the untrained mean; None for that itself."""
        from ..evaluation.outcomes import verdict_of

        return None if self.against is None else verdict_of(self.outcome.ahead_of(self.against))

    def __str__(self) -> str:
        mark = "" if self.verdict is None else f" {_MARKS[self.verdict]}"
        return f"{shown(self.outcome.value)}{mark}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        difference = None if self.against is None else self.outcome.ahead_of(self.against)
        return {
            **self.outcome.estimate.to_dict(),
            "count": self.outcome.count,
            "difference": difference and difference.to_dict(),
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Line:
    """One measure of one set, of all ways."""

    set: str
    measure: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Bases:
    """The untrained means of the models' backbones.

    Args:
        encoders: the distinct ones, by the name of their row.
        of_model: the name of the row that a model is measured against.
        missing: which backbones cannot be loaded, and why.
    """

    encoders: Mapping[str, DocumentEncoder]
    of_model: Mapping[str, str]
    missing: Sequence[str]

    @classmethod
    def of(cls, models: Mapping[str, DocumentEncoder], options: argparse.Namespace) -> Bases:
        """Load the backbone of every model.

        Args:
            models: the models by name.
            options: the arguments.

        Raises:
            ModelError: a backbone that was named cannot be loaded.
        """
        from ..errors import ModelError
        from ..evaluation.baselines import has_same_passage_vectors, untrained_mean

        encoders: dict[str, DocumentEncoder] = {}
        of_model, missing = {}, []
        for name, model in models.items():
            try:
                base = untrained_mean(model, options.baseline, device=options.device, dtype=options.dtype)
            except ModelError as error:
                if options.baseline is not None:
                    raise
                missing.append(f"no verdict on {name}: its backbone cannot be loaded ({error})")
                continue
            same = (row for row, one in encoders.items() if has_same_passage_vectors(one, base))
            row = next(same, UNTRAINED if not encoders else f"{UNTRAINED} of {name}")
            encoders.setdefault(row, base)
            of_model[name] = row
        return cls(encoders, of_model, missing)

    def reference(self, name: str) -> str | None:
        """The row that another is measured against; None for an untrained mean itself, or without one."""
        if name in self.encoders:
            return None
        if name.startswith(CENTRED):
            return UNTRAINED + name.removeprefix(CENTRED)
        return self.of_model.get(name, next(iter(self.encoders), None))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    data = parser.add_argument_group("sets")
    data.add_argument("--sets", metavar="FILE", required=True, help="YAML file of the sets")
    data.add_argument("--only", metavar="NAME", action="append", help="measure this set alone; may be repeated")
    measures = parser.add_argument_group("measures")
    measures.add_argument("--seeds", type=positive, default=20, metavar="N", help="seeds of k-means (default: 20)")
    measures.add_argument(
        "--resamples", type=whole, default=1000, metavar="N", help="bootstrap resamples (default: 1000)"
    )
    measures.add_argument("--seed", type=whole, default=0, metavar="N", help="draws resamples and random pairs")
    measures.add_argument(
        "--baseline", metavar="BACKBONE", help="where the models' backbone is, if not under the name they know"
    )
    OUTPUTS.add_to(parser)
    add_model_arguments(parser, several=True, measures=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, encode, measure, print and write."""
    from ..settings.loading import load_settings
    from ..settings.measured_sets import MeasuredSets

    chosen = chosen_sets(load_settings(MeasuredSets, options.sets).sets, options.only)
    sources = [source for one in chosen for source in (*one.documents, *one.train, *one.test, one.pairs, one.judged)]
    OUTPUTS.prepare(options, [options.sets, *sources])

    from ..documents.readers import ReadingReport

    report = ReadingReport()
    models = {name: load_encoder(options, name) for name in dict.fromkeys(options.model or ["mini"])}
    bases = Bases.of(models, options)
    lines: list[Line] = []
    notes = list(bases.missing)
    for one in chosen:
        data, about = read_set(one, options, report, next(iter(models.values())))
        found = _measure(data, models, bases, options)
        lines += [
            Line(
                one.name,
                measure,
                {
                    name: Cell(outcomes[measure], _against(found, bases, name, measure))
                    for name, outcomes in found.items()
                },
            )
            for measure in found[WORDS]
        ]
        notes.append(f"{one.name}: {about}")
    ways = list(dict.fromkeys(way for line in lines for way in line.cells))

    def content() -> dict[str, Any]:
        return {
            "format": "graphdoc.sets/1",
            "sets": [one.as_values() for one in chosen],
            "models": {name: encoder.describe() for name, encoder in models.items()},
            "seeds": options.seeds,
            "bootstrap": {"resamples": options.resamples, "seed": options.seed, "confidence": 0.95},
            "skipped": [asdict(entry) for entry in report.skipped],
            "lines": [
                {
                    "set": line.set,
                    "measure": line.measure,
                    "cells": {way: cell.to_dict() for way, cell in line.cells.items()},
                }
                for line in lines
            ],
        }

    target = OUTPUTS.write(
        options,
        json=lambda path: write_json(path, content()),
        csv=lambda path: _long(lines).write_csv(path),
        markdown=lambda path: _write_markdown(
            path, lines, ways, [*notes, *_legend(options), *_summary(lines, models)]
        ),
    )
    if target is None:
        return
    _table(lines, ways).print(target)
    target.print()
    print_lines(target, [*notes, *_legend(options), *_summary(lines, models)])
    list_left_out(target, report)
    OUTPUTS.report(options, target)


def _measure(
    data: MeasuredSet, models: Mapping[str, DocumentEncoder], bases: Bases, options: argparse.Namespace
) -> dict[str, dict[str, Outcome]]:
    """What is measured of every way on a set, by the names of their rows; passages that are alike are encoded once."""
    from ..evaluation.baselines import has_same_passage_vectors, untrained_mean
    from ..evaluation.labels import plain_document
    from ..evaluation.measured_set import EncoderWay, Way, WordWay, measure
    from ..evaluation.outcomes import Resampling

    resampling = Resampling(options.resamples, options.seed)

    def outcomes(way: Way, of: MeasuredSet) -> dict[str, Outcome]:
        return measure(of, way.make(of, options.seed), resampling, options.seeds)

    found = {WORDS: outcomes(WordWay(), data)}
    encoded: list[tuple[DocumentEncoder, MeasuredSet]] = []

    def ready(encoder: DocumentEncoder) -> MeasuredSet:
        """The set with its passages encoded."""
        for leader, of in encoded:
            if has_same_passage_vectors(leader, encoder):
                return of
        if encoder.model.structural_embeddings is not None or encoder.model.config.matching is not None:
            return data
        documents = [plain_document(one) for one in data.documents]
        of = data.with_documents({one.document.id: one for one in encoder.with_passage_vectors(documents)})
        encoded.append((encoder, of))
        return of

    for name, base in bases.encoders.items():
        of = ready(base)
        found[name] = outcomes(EncoderWay(base), of)
        centred = untrained_mean(base, options.baseline, device=options.device, dtype=options.dtype)
        centred.fit(of.train or of.documents, show_progress=False)
        found[CENTRED + name.removeprefix(UNTRAINED)] = outcomes(EncoderWay(centred), of)
    for name, model in models.items():
        found[name] = outcomes(EncoderWay(model), ready(model))
    return found


def _against(found: Mapping[str, Mapping[str, Outcome]], bases: Bases, name: str, measure: str) -> Outcome | None:
    reference = bases.reference(name)
    return None if reference is None else found[reference][measure]


def _table(lines: Sequence[Line], ways: Sequence[str]) -> Table:
    result = Table([names("set"), names("measure"), *(Column(way, str) for way in ways)])
    for line in lines:
        result.add(line.set, line.measure, *(line.cells[way] for way in ways))
    return result


def _long(lines: Sequence[Line]) -> Table:
    """One line for every measure and way, with intervals."""
    result = Table(["set", "measure", "way", "value", "low", "high", "difference", "low", "high", "verdict", "count"])
    for line in lines:
        for way, cell in line.cells.items():
            values = cell.to_dict()
            ends = values["interval"] or (None, None)
            difference = values["difference"] or {"value": None, "interval": None}
            apart = difference["interval"] or (None, None)
            result.add(
                line.set, line.measure, way, values["value"], *ends, difference["value"], *apart, cell.verdict,
                cell.outcome.count,
            )  # fmt: skip
    return result


def _differences(lines: Sequence[Line], ways: Sequence[str]) -> Table:
    """By how much every way is ahead of the untrained mean."""
    compared = [way for way in ways if any(line.cells[way].against is not None for line in lines)]
    result = Table([names("set"), names("measure"), *(Column(way, signed_interval) for way in compared)])
    for line in lines:
        cells = [line.cells[way] for way in compared]
        result.add(
            line.set,
            line.measure,
            *(None if one.against is None else one.outcome.ahead_of(one.against) for one in cells),
        )
    return result


def _legend(options: argparse.Namespace) -> list[str]:
    return [
        f"+ better, - worse, = no difference to the untrained mean: 95 % of {options.resamples:,} paired "
        "bootstrap resamples of documents, pairs or queries",
        f"NMI and purity: mean over {options.seeds} seeds of k-means; 10-NN: accuracy by the ten nearest documents "
        "for fitting",
    ]


def _summary(lines: Sequence[Line], models: Mapping[str, DocumentEncoder]) -> list[str]:
    """How many cells of every model are better or worse."""
    result = []
    for name in models:
        verdicts = Counter(verdict for line in lines if (verdict := line.cells[name].verdict) is not None)
        if total := sum(verdicts.values()):
            result.append(
                f"{name}: better in {verdicts['better']} of {total} measures, worse in {verdicts['worse']}, no "
                f"difference in {verdicts['no difference']}"
            )
    return result


def _write_markdown(path: str, lines: Sequence[Line], ways: Sequence[str], notes: Sequence[str]) -> None:
    from ..runtime.files import write_text
    from ..runtime.text import markdown

    text = "\n".join(f"- {markdown(note)}" for note in notes)
    tables = (
        f"{_table(lines, ways).markdown()}\nAhead of the untrained mean:\n\n{_differences(lines, ways).markdown()}"
    )
    write_text(path, f"{tables}\n{text}\n")
