"""graphdoc evaluate: what its tasks share, and all of them on many sets in one table, with verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from cyclopts import Group, Parameter

from ..documents.readers import ReadingReport
from ..errors import EvaluationError, ModelError
from .options import COUNT, File, Json, MeasuredModels
from .output import Outputs, Table, TableColumn, names, shown, signed_interval, write_json
from .sources import LabelledReading

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder
    from ..evaluation import Evaluator
    from ..evaluation.resampling import Estimate
    from ..evaluation.sets import MeasuredSet, Representation
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
        """All sources of train and test, which are named in one of both ways."""
        is_whole = bool(self.test) and bool(self.train or not needs_train)
        if is_whole == bool(corpora) or (self.train and not self.test):
            raise EvaluationError("name a corpus with a column split, or without one --train SOURCE and --test SOURCE")
        return [*corpora, *self.train, *self.test]

    def read(
        self, corpora: Sequence[str], reading: LabelledReading, report: ReadingReport
    ) -> tuple[list[Document], list[Document]]:
        """Read train and test documents, of corpora with a column split or of the options."""
        from ..evaluation.labels import split_of

        parts: dict[str, list[Document]] = {"train": [], "test": []}
        for document in reading.documents(corpora, report) if corpora else ():
            parts.get(split_of(document) or "", []).append(document)
        for name, sources in (("train", self.train), ("test", self.test)):
            parts[name] += reading.documents(sources, report) if sources else ()
        if not parts["test"]:
            wanted = "has test in its column split; write it there, or give --test alone" if corpora else "is there"
            raise EvaluationError(f"no document of {' '.join(corpora or self.test)} {wanted}")
        return parts["train"], parts["test"]


class Candidate(NamedTuple):
    """An encoder that is measured, as ``model`` or ``untrained``, and the name of its untrained row, if any."""

    encoder: DocumentEncoder
    name: str
    role: str
    base: str | None = None


@dataclass(frozen=True)
class MeasuredRow:
    """One line of the tables: what was measured of an encoder, or of words.

    Coverage and the description of the model are None for words, which are all read; values are for pictures.
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

    Returns:
        The encoders; a line for every backbone that cannot be loaded.
    """
    from ..evaluation.baselines import has_same_passage_vectors, untrained_mean

    untrained: list[Candidate] = []
    trained: list[Candidate] = []
    missing = []
    for name, options in models.by_name():
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
    """Every encoder with the evaluator whose passages are encoded for it, once for all that read them alike."""
    from ..evaluation.baselines import SharedPassages
    from ..segmentation.spans import Coverage

    make = partial(evaluator.prepared, processes=processes, encode_passages=True, show_progress_bar=None)
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
    """Write the files that are asked for, by option (``--json`` the content), and print tables and notes on them."""
    target = outputs.write(json=lambda path: write_json(path, content), **writers)
    for table in tables:
        table.print(target)
        target.print()
    target.lines(notes)
    outputs.report(target, report)


class Cell(NamedTuple):
    """One measure of one row on one set, and how far it is ahead of the untrained mean; None for that itself."""

    estimate: Estimate
    ahead: Estimate | None

    def __str__(self) -> str:
        marks = {"better": " +", "worse": " -", "no difference": " ="}
        return shown(self.estimate.value) + (marks[self.ahead.verdict] if self.ahead else "")

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        ahead = self.ahead
        return self.estimate.to_dict() | {"difference": ahead and ahead.to_dict(), "verdict": ahead and ahead.verdict}


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

    The models are compared with TF-IDF, the untrained mean of their backbone, that mean less the mean of the documents
    for fitting, and evidence: TF-IDF and that mean together. A model is better or worse than the untrained mean where
    95 % of paired bootstrap resamples agree.

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

    chosen = [settings for settings in load_settings(SetFile, sets).sets if not only or settings.name in only]
    if unknown := set(only) - {settings.name for settings in chosen}:
        raise EvaluationError(f"--only {min(unknown)!r} is no set of the file")
    sources = [source for each in chosen for source in (*each.documents, *each.train, *each.test)]
    sources += [source for each in chosen for source in (each.pairs, each.judged) if source is not None]
    outputs = Outputs([sets, *sources], json=json, markdown=markdown)

    report = ReadingReport()
    candidates, notes = load_candidates(model, baseline)
    # Cells by row, of every set and measure.
    lines: dict[tuple[str, str], dict[str, Cell]] = {}
    for settings in chosen:
        data = read_set(settings, candidates[-1].encoder, report)
        measured = {
            row: (base, data.measure(representation, seeds=seeds, resamples=resamples))
            for row, base, representation in _rows(data, candidates)
        }
        for row, (base, estimates) in measured.items():
            for measure, estimate in estimates.items():
                ahead = None if base is None else estimate - measured[base][1][measure]
                lines.setdefault((settings.name, measure), {})[row] = Cell(estimate, ahead)
        notes.append(f"{settings.name}: {data.sizes}")
    notes += [
        f"+ better, - worse, = no difference to the untrained mean: 95 % of {resamples:,} paired bootstrap "
        "resamples of documents, pairs or queries",
        f"NMI and purity: mean over {seeds} seeds of k-means; 10-NN: accuracy by the ten nearest documents for fitting",
    ]
    for candidate in candidates:
        verdicts = Counter(cell.ahead.verdict for cells in lines.values() if (cell := cells[candidate.name]).ahead)
        if total := verdicts.total():
            notes.append(
                f"{candidate.name}: better in {verdicts['better']} of {total} measures, worse in {verdicts['worse']}, "
                f"no difference in {verdicts['no difference']}"
            )
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
    table, differences = (
        Table([names("set"), names("measure"), *(TableColumn(row, write) for row in rows)])
        for write in (str, signed_interval)
    )
    for (name, measure), cells in lines.items():
        table.add(name, measure, *(cells[row] for row in rows))
        differences.add(name, measure, *(cells[row].ahead for row in rows))

    def write_markdown(path: str) -> None:
        from ..runtime.files import write_text
        from ..runtime.text import markdown

        text = "\n".join(f"- {markdown(note)}" for note in notes)
        write_text(path, f"{table.markdown()}\nAhead of the untrained mean:\n\n{differences.markdown()}\n{text}\n")

    show(outputs, content, [table], notes, report, markdown=write_markdown)


def _rows(data: MeasuredSet, candidates: Sequence[Candidate]) -> Iterator[tuple[str, str | None, Representation]]:
    """Every row's name, the untrained mean that it is compared with (None for that itself), and what it gives.

    Passages that are alike are encoded once.
    """
    from ..evaluation.baselines import UNTRAINED, SharedPassages
    from ..evaluation.sets import ROWS, encoder_vectors

    shared = SharedPassages(data.with_passages_of, data)
    first = candidates[0]
    for name, row in ROWS.items():
        if not row.of_backbone:
            yield name, first.name if first.role == "untrained" else None, row.make(data, first.encoder)
    for candidate in candidates:
        ready = shared.of(candidate.encoder)
        if candidate.role == "model":
            yield candidate.name, candidate.base, encoder_vectors(ready, candidate.encoder)
            continue
        for name, row in ROWS.items():
            if row.of_backbone:
                base = None if name == UNTRAINED else candidate.name
                yield candidate.name.replace(UNTRAINED, name), base, row.make(ready, candidate.encoder)
