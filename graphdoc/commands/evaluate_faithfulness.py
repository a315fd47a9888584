"""graphdoc evaluate faithfulness: do contributions and attention explain what a model says?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import EvaluationError
from ..runtime.files import write_text
from ..runtime.memory import quick_imports
from ..runtime.text import counted, markdown
from .arguments import add_model_arguments, add_reading_arguments, load_encoder, positive, whole
from .measured_models import processes_of
from .outputs import JSON, Outputs, write_json
from .sources import encodable, no_documents, read_many, skips_unencodable
from .summaries import list_left_out, print_lines
from .tables import Column, Table, names, signed_interval

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder
    from ..evaluation import Pairs
    from ..evaluation.faithfulness.removal_curves import Kind
    from ..evaluation.faithfulness.scores import FaithfulnessScores
    from ..evaluation.faithfulness.study import FaithfulnessEvaluation
    from ..segmentation.spans import Coverage

HELP = "do contributions and attention explain? Deletion and insertion curves"
DESCRIPTION = """Take passages out of documents, step by step, and watch what becomes of a similarity (with --pairs) or
of the probability of the predicted class (without): first those with the highest contribution, the most attention, the
most words in common with the other document or the class, or at random. What explains a model makes the number fall
early; put in first, into nothing, the same passages make it rise early.

Every document goes through the transformer once. Of a pair each document is shortened in turn. The table has the areas
under the curves, and by how much each is better than random, with 95 % bootstrap intervals over documents."""
EPILOG = """examples:
  graphdoc evaluate faithfulness --data papers/ --pairs pairs.tsv --model mini --output curves/
  graphdoc evaluate faithfulness --data test.jsonl.gz --model runs/topics/model --sample 200 --plot curves.png
  graphdoc evaluate faithfulness --data corpus.jsonl --pairs test.tsv --similar-only --model mini --model runs/a/model
"""

FORMAT = "graphdoc.faithfulness/1"
KINDS: tuple[Kind, Kind] = ("deletion", "insertion")
LONGEST_NAME = 36
LEFT_OUT = {
    "unknown": ("pair", "left out for documents that are not there"),
    "with_themselves": ("pair", "of a document with itself left out"),
    "repeated": ("pair", "given before, and left out"),
    "one_passage": ("document", "of one passage, too short to be shortened"),
}
OUTPUTS = Outputs(
    json=("faithfulness.json", JSON),
    csv=("curves.csv", "write the curves with their bands as CSV"),
    markdown=("faithfulness.md", "write the tables as Markdown"),
    plot=("curves.png", "draw the curves with their bands (.png, .svg, .pdf)"),
)


@dataclass(frozen=True)
class Row:
    """A model and what was measured of it."""

    name: str
    scores: FaithfulnessScores
    coverage: Coverage
    model: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        return {"name": self.name, **self.scores.to_dict(), "coverage": self.coverage.to_dict(), "model": self.model}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    data = parser.add_argument_group("documents and pairs")
    data.add_argument("--data", metavar="SOURCE", nargs="+", required=True, help="corpora that the documents are in")
    data.add_argument(
        "--pairs",
        metavar="FILE",
        help="pairs whose similarity is watched: id_a, id_b, 0 or 1 by tabs; without them it is classes",
    )
    data.add_argument("--similar-only", action="store_true", help="watch the pairs of label 1 alone")
    data.add_argument(
        "--sample", type=positive, metavar="N", help="measure N of the pairs, or of the documents, drawn at random"
    )
    measures = parser.add_argument_group("measures")
    measures.add_argument("--steps", type=positive, default=10, metavar="N", help="steps of a curve (default: 10)")
    measures.add_argument(
        "--orders", type=positive, default=5, metavar="N", help="random orders to average over (default: 5)"
    )
    measures.add_argument(
        "--resamples", type=positive, default=1000, metavar="N", help="bootstrap resamples (default: 1000)"
    )
    measures.add_argument(
        "--seed", type=whole, default=0, metavar="N", help="draws orders, resamples and the sample (default: 0)"
    )
    OUTPUTS.add_to(parser)
    add_model_arguments(parser, several=True, measures=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, encode, shorten, print and write."""
    if options.similar_only and options.pairs is None:
        raise EvaluationError("--similar-only chooses among pairs, and there are none; give --pairs, or leave it out")
    OUTPUTS.prepare(options, [*options.data, options.pairs])

    from ..documents.readers import ReadingReport

    with quick_imports():
        from ..evaluation.faithfulness.study import FaithfulnessEvaluation
    pairs = _pairs(options)
    wanted = None if pairs is None else {id for pair in pairs for id in (pair.a, pair.b)}
    report = ReadingReport()
    documents = [one for one in read_many(options.data, options, report) if wanted is None or one.id in wanted]
    if not documents and wanted is None:
        raise no_documents(options.data, report)

    evaluation_of = partial(
        FaithfulnessEvaluation,
        pairs=pairs,
        steps=options.steps,
        orders=options.orders,
        sample=options.sample,
        unknown="leave_out" if options.on_error == "skip" else "stop",
        resamples=options.resamples,
        seed=options.seed,
    )
    # Pairs that nothing can be measured on are refused before any model is loaded, and models before they run.
    evaluation = evaluation_of(documents)
    encoders = {name: load_encoder(options, name) for name in options.model or ["mini"]}
    for encoder in encoders.values():
        evaluation.require_target(encoder)
    if skips_unencodable(options, options.data):
        first = next(iter(encoders.values()))
        evaluation = evaluation_of(list(encodable(documents, first, report)))
    with processes_of(options) as processes:
        # A document is shortened as a whole, in one process.
        if not processes.is_first:
            return
    rows = [_measured(evaluation, encoder, name) for name, encoder in encoders.items()]
    notes, findings = _notes(evaluation, rows), _findings(rows)

    def content() -> dict[str, Any]:
        return {
            "format": FORMAT,
            "data": {
                "documents": len(evaluation.documents),
                "pairs": None if evaluation.pairs is None else len(evaluation.pairs),
            },
            "steps": evaluation.steps,
            "random_orders": evaluation.orders,
            "bootstrap": {"resamples": evaluation.resamples, "seed": evaluation.seed, "confidence": 0.95},
            "rows": [row.to_dict() for row in rows],
        }

    def plot(path: str) -> None:
        from ..evaluation.drawing.faithfulness import plot_faithfulness

        plot_faithfulness({row.name: row.scores for row in rows}, path)

    target = OUTPUTS.write(
        options,
        json=lambda path: write_json(path, content()),
        csv=_curves(rows).write_csv,
        markdown=lambda path: write_text(path, _markdown(rows, notes, findings)),
        plot=plot,
    )
    if target is None:
        return
    _areas(rows).print(target)
    target.print()
    areas = "areas under the curves: what explains has less in deletion and more in insertion"
    print_lines(target, [areas, *findings, *notes])
    list_left_out(target, report)
    OUTPUTS.report(options, target)


def _pairs(options: argparse.Namespace) -> Pairs | None:
    """The pairs to watch."""
    from ..evaluation import read_pair_file

    if options.pairs is None:
        return None
    pairs = read_pair_file(options.pairs)
    if not options.similar_only:
        return pairs
    similar = pairs.chosen([number for number, pair in enumerate(pairs) if pair.label == 1])
    if not len(similar):
        raise EvaluationError(f"{pairs.name} has no pair of label 1; leave out --similar-only")
    return similar


def _measured(evaluation: FaithfulnessEvaluation, encoder: DocumentEncoder, name: str) -> Row:
    from ..segmentation.spans import Coverage

    coverage = Coverage()
    scores = evaluation.measure(encoder, totals=coverage)
    return Row(name, scores, coverage, encoder.describe())


def _areas(rows: list[Row]) -> Table:
    """Areas under the curves, and by how much they are better than random."""
    columns = [column for kind in KINDS for column in (Column(kind), Column("better than random", signed_interval))]
    result = Table([names("model", LONGEST_NAME), names("passages by"), *columns])
    for row in rows:
        for number, method in enumerate(row.scores.methods):
            cells: list[Any] = []
            for kind in KINDS:
                is_random = method == row.scores.methods[-1]
                cells += [row.scores.area(method, kind), "" if is_random else row.scores.ahead(method, kind)]
            result.add("" if number else row.name, method, *cells)
    return result


def _curves(rows: list[Row]) -> Table:
    """A line for every point of every curve, with the ends of its band."""
    result = Table(["model", "watched", "curve", "passages_by", "fraction", "value", "low", "high"])
    for row in rows:
        scores = row.scores
        fractions = [round(fraction, 6) for fraction in scores.fractions.tolist()]
        for kind in KINDS:
            for method in scores.methods:
                values, bands = scores.curve(method, kind).tolist(), scores.band(method, kind)
                for fraction, value, ends in zip(fractions, values, bands, strict=True):
                    result.add(row.name, scores.watched, kind, method, fraction, value, *(ends or (None, None)))
    return result


def _notes(evaluation: FaithfulnessEvaluation, rows: list[Row]) -> list[str]:
    """What has to be known to read the tables, one line each."""
    lines = []
    for row in rows:
        scores, name = row.scores, f"{row.name}: " if len(rows) > 1 else ""
        documents, cases = counted(len(scores.documents), "document"), f"{len(scores.cases):,}"
        if evaluation.pairs is None:
            lines.append(f"{name}probability of the predicted class of {documents}")
        else:
            of = counted(len(evaluation.pairs), "pair")
            lines.append(f"{name}similarity of {of}; {documents} shortened, {cases} cases")
        lines += [f"{name}{note}" for note in scores.notes]
        for reason, count in scores.left_out.items():
            noun, why = LEFT_OUT[reason]
            if count:
                lines.append(f"{name}{counted(count, noun)} {why}")
    intervals = "no intervals, which need two documents"
    if any(row.scores.samples is not None for row in rows):
        intervals = f"intervals: 95 % of {counted(evaluation.resamples, 'bootstrap resample')} of the documents"
    return [*lines, f"random: mean of {counted(evaluation.orders, 'order')}; {intervals}"]


def _findings(rows: list[Row]) -> list[str]:
    """By how much contributions explain better than what else there is, in words."""
    lines = []
    for row in rows:
        name = f"{row.name}: " if len(rows) > 1 else ""
        for other in row.scores.methods[1:-1]:
            parts = [f"{kind} {signed_interval(row.scores.ahead('contribution', kind, other))}" for kind in KINDS]
            lines.append(f"{name}contribution against {other}: {', '.join(parts)}")
    return lines


def _markdown(rows: list[Row], notes: list[str], findings: list[str]) -> str:
    """The table with its intervals, and what has to be known to read it."""

    def listed(lines: list[str]) -> str:
        return "".join(f"- {markdown(line)}\n" for line in lines)

    text = f"# Faithfulness\n\n{_areas(rows).markdown()}\n{listed(notes)}"
    return text + (f"\nBetter by, in area:\n\n{listed(findings)}" if findings else "")
