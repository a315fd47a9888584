"""graphdoc evaluate classify: does a model give documents the labels that they have?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import SettingsError
from .arguments import (
    add_model_arguments,
    add_reading_arguments,
    check_image,
    fill_outputs,
    load_encoder,
    no_documents,
    positive,
    probability,
    write_json,
)
from .classification_tables import SHOWN_MISTAKES, Measured, Row, print_tables, to_csv, to_json
from .labelled_parts import Parts, add_part_arguments, check_parts, read_parts
from .measured_models import with_passages

if TYPE_CHECKING:
    from ..evaluation import ClassificationEvaluator, LabelledDocuments

NAME = "classify"
HELP = "labels that a model gives: accuracy, F1, confusion, calibration, mistakes"
DESCRIPTION = """Predict the labels of documents and hold them against those that they have: accuracy, macro F1, a
table by class, which classes are taken for which, and whether probabilities are as right as they claim. The mistakes
that the model is most sure of are shown with the passages that spoke for them.

Where there are train documents, TF-IDF and a linear support vector machine learn from them and are measured on the
same documents: what a model adds to that is what reading is worth.

Documents without a label, or with several where the model gives one, are left out and counted. A label that the model
does not know counts as missed, and is named."""
EPILOG = """examples:
  graphdoc evaluate classify --data corpus.jsonl --model runs/topics/model --output scores/
  graphdoc evaluate classify --test test.jsonl.gz --model runs/topics/model --html mistakes.html
  graphdoc evaluate classify --train train.csv --test test.csv --model runs/tags/model --label-separator ";"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_part_arguments(parser, train="documents that TF-IDF and SVM learn from", test="documents that are measured")
    labels = parser.add_argument_group("labels")
    labels.add_argument(
        "--label-from",
        choices=("column", "folder"),
        default="column",
        help="take labels from a column, or from the folders of files directly below the source (default: column)",
    )
    labels.add_argument(
        "--label-separator",
        metavar="TEXT",
        help="what stands between the labels of one cell, for models with several labels",
    )
    measures = parser.add_argument_group("measures")
    measures.add_argument(
        "--threshold",
        type=probability,
        metavar="P",
        help="probability from which on a document gets a class, for models with several labels (default: 0.5)",
    )
    measures.add_argument(
        "--mistakes", type=positive, default=20, metavar="N", help="mistakes in JSON and HTML (default: 20)"
    )
    measures.add_argument(
        "--passages", type=positive, default=3, metavar="N", help="passages of a mistake (default: 3)"
    )
    measures.add_argument("--no-baseline", action="store_true", help="leave out TF-IDF and SVM")
    output = parser.add_argument_group("output")
    output.add_argument("--json", metavar="FILE", help="write everything as JSON (- for standard output)")
    output.add_argument("--csv", metavar="FILE", help="write the table by class as CSV")
    output.add_argument("--plot", metavar="FILE", help="draw the confusion matrix (.png, .svg, .pdf)")
    output.add_argument("--reliability", metavar="FILE", help="draw how often probabilities are right")
    output.add_argument("--html", metavar="FILE", help="write the page of mistakes, with links to the documents")
    output.add_argument(
        "--output",
        metavar="FOLDER",
        help="write scores.json, classes.csv, confusion.png, reliability.png and mistakes.html there",
    )
    add_model_arguments(parser, classifier=True)
    add_reading_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Read, predict, measure, print and write."""
    sources = check_parts(options, needs_train=False)
    files = {"json": "scores.json", "csv": "classes.csv", "plot": "confusion.png", "reliability": "reliability.png"}
    fill_outputs(options, *sources, **files, html="mistakes.html")
    check_image(options.plot)
    check_image(options.reliability)

    from ..documents.readers import ReadingReport
    from ..documents.readers.folders import labelled_by_folder
    from ..evaluation import ClassificationEvaluator, LabelledDocuments
    from ..modeling.logit_attribution import splits_exactly
    from ..prediction.predicting import classes_of, threshold_of
    from ..segmentation.coverage import Coverage

    report = ReadingReport(places={})
    parts = read_parts(options, report, needs_train=False)
    if options.label_from == "folder":
        train_part, test_part = (list(map(labelled_by_folder, part)) for part in (parts.train, parts.test))
        parts = Parts(train_part, test_part, [])
    encoder = load_encoder(options)
    classes, multi_label = classes_of(encoder), bool(encoder.model.config.multi_label)
    threshold = threshold_of(encoder, options.threshold)
    if options.label_separator is not None and not multi_label:
        raise SettingsError(
            f"--label-separator={options.label_separator!r} is for models with several labels, and {options.model} "
            "gives every document one; leave it out"
        )
    if options.on_error == "skip" and not (test := with_passages(parts.test, encoder, report)):
        raise no_documents(sources, report)
    elif options.on_error == "skip":
        parts = Parts(parts.train, test, [])
    labels = {"multi_label": multi_label, "separator": options.label_separator}
    evaluation = ClassificationEvaluator(parts.test, **labels, threshold=options.threshold)
    train = None if options.no_baseline or not parts.train else LabelledDocuments.of(parts.train, **labels)
    # What the baseline cannot learn from is told before the long work.
    baseline = _baseline(evaluation, train)
    totals = Coverage()
    predictions = evaluation.predict(encoder, totals=totals)
    wanted = options.mistakes if options.json or options.html else min(options.mistakes, SHOWN_MISTAKES)
    measured = Measured(
        encoder.name,
        encoder.describe(),
        [Row(options.model, "model", evaluation.score(predictions)), *baseline],
        evaluation.mistakes(encoder, predictions, wanted),
        evaluation.labelled,
        classes,
        threshold,
        splits_exactly(encoder.model),
        totals,
        parts.shared_ids,
        len(train) if baseline and train is not None else None,
        report,
    )
    totals.warn()
    _write(options, measured)
    if options.json != "-":
        print_tables(measured, (options.json, options.csv, options.plot, options.reliability, options.html))


def _baseline(evaluation: ClassificationEvaluator, train: LabelledDocuments | None) -> list[Row]:
    """The row of word counts, if there is anything to learn from.

    Raises:
        EvaluationError: the train documents teach nothing.
    """
    from ..errors import EvaluationError
    from ..evaluation import classification_scores
    from ..evaluation.baselines import TFIDF_SVM as WORDS
    from ..evaluation.baselines import lexical_predictions

    if train is None:
        return []
    labelled = evaluation.labelled
    try:
        found = lexical_predictions(train, labelled.documents)
    except EvaluationError as error:
        raise EvaluationError(f"{error} (or do without {WORDS}: --no-baseline)") from error
    scores = classification_scores(labelled.labels, found, train.classes, multi_label=evaluation.multi_label)
    return [Row(WORDS, "words", scores)]


def _write(options: argparse.Namespace, measured: Measured) -> None:
    scores = measured.rows[0].scores
    title = f"{measured.name}: accuracy {scores.accuracy:.3f} on {scores.documents:,} documents"
    if options.json:
        write_json(options.json, to_json(measured, options.passages))
    if options.csv:
        from ..runtime.files import write_text

        write_text(options.csv, to_csv(measured))
    if options.plot:
        from ..analysis.figures.classification import plot_confusion

        plot_confusion(scores, title, options.plot)
    if options.reliability:
        from ..analysis.figures.classification import plot_reliability

        assert scores.calibration is not None
        plot_reliability(scores.calibration, measured.name, options.reliability)
    if options.html:
        from ..analysis.report.mistakes import write_mistakes

        write_mistakes(
            options.html,
            measured.mistakes,
            scores,
            measured.name,
            exact=measured.exact,
            places=measured.report.places,
            passages=options.passages,
        )
