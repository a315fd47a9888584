"""graphdoc predict: which classes documents belong to, and which passages speak for them."""

from __future__ import annotations

import argparse
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..errors import OutputError
from ..runtime.wording import counted
from .arguments import (
    add_model_arguments,
    add_reading_arguments,
    check_apart,
    check_outputs,
    encodable,
    load_encoder,
    no_documents,
    probability,
    read_many,
    whole,
    write_json,
)
from .summaries import (
    MOST_ROWS,
    console,
    coverage_line,
    list_left_out,
    list_without_id,
    more_rows,
    plain,
    table,
    written,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ..encoder import DocumentEncoder
    from ..prediction import Prediction

NAME = "predict"
HELP = "predict the classes of documents"
DESCRIPTION = """Predict which classes documents belong to, how likely each is, and which passages speak for them.

The model is one that was fine-tuned on labels. A passage's contribution is what it adds to the logit of a class; where
document vectors are weighted sums of passages, contributions and a bias add up to the logit exactly.

With --output the predictions are written as they come, in constant memory: one row per document with its label, the
probabilities of all classes, and the passages. What of the documents was not encoded is counted and told."""
EPILOG = """examples:
  graphdoc predict letters/ --model runs/topics/model
  graphdoc predict one.md --model runs/topics/model --passages 5
  graphdoc predict corpus.jsonl.gz --model runs/topics/model --output predictions.parquet --on-error skip
  graphdoc predict corpus.csv --model runs/tags/model --threshold 0.3 --output predictions.csv
"""

_SUFFIXES = (".jsonl", ".csv", ".parquet")
_SHOWN_CLASSES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="files, folders, globs, corpora or -")
    parser.add_argument(
        "--passages",
        type=whole,
        default=3,
        metavar="N",
        help="passages to list for every class that a document gets, by falling contribution; 0 for none (default: 3)",
    )
    parser.add_argument(
        "--threshold",
        type=probability,
        metavar="P",
        help="probability from which on a document gets a class, for models with several labels (default: 0.5)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--output", metavar="FILE", help="write one row per document (.jsonl, .csv, .parquet)")
    output.add_argument("--json", metavar="FILE", help="write everything as JSON (- for standard output)")
    add_model_arguments(parser, classifier=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Predict, write and print."""
    check_outputs(options, "output", "json")
    if options.output is not None and not options.output.lower().endswith(_SUFFIXES):
        raise OutputError(f"{options.output} has no suffix of a table; use one of {', '.join(_SUFFIXES)}")
    check_apart(options.sources, options.output, options.json)

    from ..documents.readers import ReadingReport

    report = ReadingReport()
    documents = read_many(options.sources, options, report)
    # What cannot be read at all is told before a model is loaded.
    first = next(documents, None)
    if first is None:
        raise no_documents(options.sources, report)

    from ..prediction import Predictions, stream_predictions, write_predictions
    from ..prediction.predicting import classes_of, threshold_of
    from ..segmentation.coverage import Coverage

    encoder = load_encoder(options)
    classes, multi_label = classes_of(encoder), bool(encoder.model.config.multi_label)
    threshold = threshold_of(encoder, options.threshold)
    found = chain([first], documents)
    totals, summary = Coverage(), _Summary(keep_all=bool(options.json))
    stream = stream_predictions(
        encoder,
        encodable(found, encoder, report) if options.on_error == "skip" else found,
        threshold=options.threshold,
        explain=options.passages > 0,
        totals=totals,
    )
    head = next(stream, None)
    if head is None:
        raise no_documents(options.sources, report)
    noted = summary.watch(chain([head], stream))
    if options.output:
        write_predictions(options.output, noted, classes, multi_label=multi_label, passages=options.passages)
    else:
        deque(noted, maxlen=0)
    totals.warn()
    if options.json:
        from ..modeling.logit_attribution import splits_exactly

        exact = splits_exactly(encoder.model)
        kept = tuple(summary.kept)
        predictions = Predictions(kept, classes, multi_label, threshold, encoder.describe(), exact, totals)
        write_json(options.json, predictions.to_dict(options.passages))
    if options.json == "-":
        return
    target = console()
    if summary.documents == 1:
        _print_one(target, summary.kept[0], options.passages)
    else:
        _print_many(target, summary, encoder)
    list_left_out(target, report)
    list_without_id(target, report)
    written(target, (options.output, options.json))


@dataclass
class _Summary:
    """What is kept of predictions that pass by.

    Args:
        keep_all: whether all of them are kept, or only those that are shown.
    """

    keep_all: bool = False
    kept: list[Prediction] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    documents: int = 0
    without_label: int = 0

    def watch(self, predictions: Iterable[Prediction]) -> Iterator[Prediction]:
        for prediction in predictions:
            if self.keep_all or len(self.kept) < MOST_ROWS:
                self.kept.append(prediction)
            self.counts.update(prediction.labels)
            self.documents += 1
            self.without_label += not prediction.labels
            yield prediction


def _print_one(target: Console, prediction: Prediction, passages: int) -> None:
    document = prediction.document
    target.print(plain(document.title or document.id))
    rows = table(("label", "left"), ("probability", "right"), ("", "left"))
    ranked = prediction.probabilities.argsort(kind="stable")[::-1].tolist()
    shown = max(_SHOWN_CLASSES, len(prediction.labels))
    for place in ranked[:shown]:
        label = prediction.classes[place]
        mark = "*" if label in prediction.labels else ""
        rows.add_row(plain(label, 60), f"{prediction.probabilities[place]:.3f}", mark)
    target.print()
    target.print(rows)
    more_rows(target, shown, len(ranked), "label")
    for decision in prediction.decisions:
        target.print()
        target.print(plain(f"passages that speak for {decision.label} (logit {decision.logit:.3f})"), style="bold")
        for row in decision.strongest(passages):
            span = prediction.segmented.passages[row]
            name, text = document.section_name(span.section), prediction.segmented.text(span)
            line = f"{decision.contributions[row]:+.3f} {name}: {text}"
            target.print(plain(line, 118), no_wrap=True, overflow="ellipsis")
        # Adding zero takes the sign from a zero.
        target.print(f"{round(decision.rest, 3) + 0.0:+.3f} from no passage")
    target.print()
    target.print(coverage_line(document.id, prediction.segmented.coverage))


def _print_many(target: Console, summary: _Summary, encoder: DocumentEncoder) -> None:
    columns = [("document", "left"), ("label", "left"), ("probability", "right"), ("coverage", "right")]
    shown = summary.kept[:MOST_ROWS]
    names = [plain(prediction.id, 36) for prediction in shown]
    labels = [plain(", ".join(prediction.labels) or "(none)", 30) for prediction in shown]
    explained = any(prediction.decisions for prediction in shown)
    columns += [("passage that speaks most for it", "left")] if explained else []
    # Rich would take room from the names as well.
    taken = max(len("document"), *map(len, names)) + max(len("label"), *map(len, labels))
    taken += len("probability") + len("coverage") + 5
    rows = table(*columns)
    for prediction, id, given in zip(shown, names, labels, strict=True):
        coverage = f"{prediction.segmented.coverage.share:.0%}"
        cells: list[Any] = [id, given, f"{prediction.probability:.3f}", coverage]
        if prediction.decisions:
            span = prediction.segmented.passages[prediction.decisions[0].strongest(1)[0]]
            section = prediction.document.section_name(span.section)
            cells.append(plain(f"{section}: {prediction.segmented.text(span)}", max(20, target.width - taken)))
        rows.add_row(*cells)
    target.print(rows)
    more_rows(target, MOST_ROWS, summary.documents, "document")
    target.print()
    counts = table(("label", "left"), ("documents", "right"))
    for label, count in summary.counts.most_common(MOST_ROWS):
        counts.add_row(plain(label, 60), f"{count:,}")
    if summary.without_label:
        counts.add_row("(none)", f"{summary.without_label:,}")
    target.print(counts)
    more_rows(target, MOST_ROWS, len(summary.counts), "label")
    target.print()
    target.print(plain(f"{counted(summary.documents, 'document')}, model {encoder.name}"))
