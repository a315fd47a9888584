"""graphdoc evaluate: what its tasks share, and all of them on many sets in one table, with verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Group, Parameter

from ..documents.readers import ReadingReport
from ..errors import EvaluationError, ModelError
from .options import COUNT, File, Json, MeasuredModels
from .output import Column, Outputs, Table, list_left_out, names, print_lines, shown, signed_interval, write_json
from .sources import LabelledReading

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder
    from ..evaluation import Estimate, Evaluator
    from ..evaluation.sets import MeasuredSet
    from ..runtime.processes import Processes
    from ..segmentation.spans import Coverage

E = TypeVar("E", bound="Evaluator")


@Parameter(name="*", group=Group("Documents", sort_key=1))
@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """How train and test documents are named, where no corpus says it in its column split."""

    train: tuple[str, ...] = ()
    """train documents, in place of a corpus; may be repeated"""
    test: tuple[str, ...] = ()
    """test documents, in place of a corpus; may be repeated"""

    def sources(self, corpora: Sequence[str], *, needs_train: bool = True) -> list[str]:
        """All sources of train and test.

        Args:
            corpora: corpora with a column split.
            needs_train: whether there have to be train documents.

        Raises:
            EvaluationError: they are named in both ways, or by half.
        """
        is_whole = bool(self.test) and bool(self.train or not needs_train)
        if is_whole == bool(corpora) or (self.train and not self.test):
            raise EvaluationError("name a corpus with a column split, or --train SOURCE and --test SOURCE")
        return [*corpora, *self.train, *self.test]

    def read(
        self, corpora: Sequence[str], reading: LabelledReading, report: ReadingReport
    ) -> tuple[list[Document], list[Document]]:
        """Read train and test documents.

        Args:
            corpora: corpora with a column split.
            reading: how they are read.
            report: is filled while documents are read.

        Raises:
            EvaluationError: there is no document to be measured.
        """
        parts: dict[str, list[Document]] = {"train": [], "test": []}
        for document in reading.many(corpora, report) if corpora else ():
            parts.get(str(document.metadata.get("split")), []).append(document)
        for name, sources in (("train", self.train), ("test", self.test)):
            parts[name] += reading.many(sources, report) if sources else ()
        if not parts["test"]:
            wanted = "has test in its column split" if corpora else "is there"
            raise EvaluationError(f"no document of {' '.join(corpora or self.test)} {wanted}")
        return parts["train"], parts["test"]


@dataclass(frozen=True)
class Candidate:
    """An encoder that is measured.

    Args:
        encoder: the encoder.
        name: what the table calls it.
        role: what it is there for, ``model`` or ``untrained``.
        base: name of the untrained row of a model's backbone; None for that itself, or without one.
    """

    encoder: DocumentEncoder
    name: str
    role: str
    base: str | None = None


@dataclass(frozen=True)
class Row:
    """One line of the tables: what was measured of an encoder, or of words.

    Args:
        name: what the table calls it.
        role: what it is there for.
        scores: what was measured.
        coverage: how much of the documents it read; None for words, which are all read.
        model: its description; None for words.
        values: what was measured on, for pictures.
    """

    name: str
    role: str
    scores: Any
    coverage: Coverage | None = None
    model: Mapping[str, Any] | None = None
    values: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values as plain values for JSON."""
        result = {"name": self.name, "role": self.role, **self.scores.to_dict()}
        coverage = self.coverage and self.coverage.to_dict()
        return result if self.model is None else result | {"coverage": coverage, "model": self.model}


def load_candidates(models: MeasuredModels, baseline: str | None) -> tuple[list[Candidate], list[str]]:
    """Load all encoders before the long work starts: untrained backbones, then the models.

    Args:
        models: the models.
        baseline: where their backbone is, if not under the name that they know.

    Returns:
        The encoders; a line for every backbone that cannot be loaded.

    Raises:
        ModelError: a model, or a backbone that was named, cannot be loaded.
    """
    from ..evaluation.baselines import has_same_passage_vectors, untrained_mean

    untrained: list[Candidate] = []
    trained: list[Candidate] = []
    missing = []
    for name, options in models.each():
        encoder = options.load()
        base = None
        try:
            backbone = untrained_mean(encoder, baseline, device=models.device)
        except ModelError as error:
            if baseline is not None:
                raise
            missing.append(f"not measured: untrained backbone of {name}: {error}")
        else:
            base = next((other for other in untrained if has_same_passage_vectors(backbone, other.encoder)), None)
            if base is None:
                is_taken = any(other.name == backbone.name for other in untrained)
                base = Candidate(backbone, f"{backbone.name} as {name}" if is_taken else backbone.name, "untrained")
                untrained.append(base)
        trained.append(Candidate(encoder, name, "model", None if base is None else base.name))
    return [*untrained, *trained], missing


def prepared_for(
    candidates: Sequence[Candidate], evaluator: E, processes: Processes
) -> Iterator[tuple[Candidate, E, Coverage]]:
    """Every encoder with the evaluator whose passages are encoded for it, once for all that read them alike.

    Args:
        candidates: the encoders.
        evaluator: the evaluator.
        processes: the processes that share the work.
    """
    from ..evaluation.baselines import SharedPassages
    from ..segmentation.spans import Coverage

    make = partial(evaluator.prepared, processes=processes, encode_passages=True, show_progress=None)
    shared = SharedPassages(make, evaluator)
    for candidate in candidates:
        yield candidate, shared.of(candidate.encoder), Coverage()


def show(
    outputs: Outputs,
    content: Mapping[str, Any],
    tables: Sequence[Table],
    notes: Sequence[str],
    report: ReadingReport | None,
    **writers: Callable[[str], object],
) -> None:
    """Write the files that are asked for, and print tables and notes.

    Args:
        outputs: the files that are asked for.
        content: what ``--json`` writes.
        tables: the tables.
        notes: what has to be known to read them, one line each.
        report: how documents were read.
        **writers: write the other files, by option.
    """
    target = outputs.write(json=lambda path: write_json(path, content), **writers)
    if target is None:
        return
    for table in tables:
        table.print(target)
        target.print()
    print_lines(target, notes)
    if report is not None:
        list_left_out(target, report)
    outputs.report(target)


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
    from ..evaluation.sets import ROWS, encoder_vectors

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
            measured[candidate.name] = candidate.base, ready.measure(encoder_vectors(ready, candidate.encoder), **how)
            continue
        for name, row in ROWS.items():
            if row.of_backbone:
                base = None if name == UNTRAINED else candidate.name
                estimates = ready.measure(row.make(ready, candidate.encoder), **how)
                measured[candidate.name.replace(UNTRAINED, name)] = base, estimates
    return measured


def _summary(lines: Mapping[tuple[str, str], Mapping[str, Cell]], candidates: Sequence[Candidate]) -> list[str]:
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
