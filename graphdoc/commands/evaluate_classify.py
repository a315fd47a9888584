"""graphdoc evaluate classify: does a model give documents the labels that they have?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ..documents.readers import ReadingReport
from ..errors import SettingsError
from ..runtime.memory import quick_imports
from ..runtime.processes import Processes, usable_device
from ..runtime.text import counted, one_line
from .evaluate import PartOptions, show
from .options import PROBABILITY, Csv, File, Json, MeasuredModel
from .output import Outputs
from .printing import LINE_WIDTH, Table, names, shown
from .sources import LabelledReading, encodable, no_documents

if TYPE_CHECKING:
    from ..evaluation import ClassificationEvaluator, ClassificationScores, LabelledDocuments
    from ..evaluation.classification import ExplainedMistake

# Mistakes that are printed, those in files, and the passages of each.
SHOWN_MISTAKES, MISTAKES, PASSAGES = 5, 20, 3
_MOST_NAMED = 10


@dataclass(frozen=True)
class Row:
    """One line of the table: who gave the labels, what it is there for, and what was measured."""

    name: str
    role: str
    scores: ClassificationScores


def evaluate_classify(
    *corpora: str,
    parts: PartOptions = PartOptions(),
    label_separator: str | None = None,
    threshold: Annotated[float | None, PROBABILITY] = None,
    json: Json = None,
    csv: Csv = None,
    plot: File = None,
    reliability: File = None,
    html: File = None,
    model: MeasuredModel = MeasuredModel(),
    reading: LabelledReading = LabelledReading(),
) -> None:
    """Predict the labels of documents and compare them with those that they have.

    Accuracy, macro F1, a table by class, which classes are taken for which, and whether probabilities are as right as
    they claim. The mistakes that the model is most sure of are shown with the passages that spoke for them. Where
    there are train documents, TF-IDF and a linear support vector machine learn from them and are measured on the same
    documents: the gap shows what the model contributes.

    Documents without a label, or with several where the model gives one, are left out and counted. A label that the
    model does not know counts as missed, and is named.

    Usage examples:
      graphdoc evaluate classify corpus.jsonl --model runs/topics/model --plot confusion.png
      graphdoc evaluate classify --test test.jsonl.gz --model runs/topics/model --html mistakes.html
      graphdoc evaluate classify --train train.csv --test test.csv --model runs/tags/model --label-separator ";"

    Args:
        corpora: labelled documents whose column split says train or test
        label_separator: what stands between the labels of one cell, for models with several labels
        threshold: probability from which on a document gets a class, for models with several labels (default: 0.5)
        csv: write the table by class as CSV
        plot: draw the confusion matrix (.png, .svg, .pdf)
        reliability: draw how often probabilities are right (.png, .svg, .pdf)
        html: write the page of mistakes, with links to the documents
    """
    sources = parts.sources(corpora, needs_train=False)
    outputs = Outputs(sources, json=json, csv=csv, plot=plot, reliability=reliability, html=html)

    with quick_imports():
        from ..evaluation import ClassificationEvaluator, LabelledDocuments
    from ..segmentation.spans import Coverage

    with Processes(usable_device(model.device)) as processes:
        report = ReadingReport(places={})
        found = parts.read(corpora, reading, report)
        encoder = model.load()
        multi_label = bool(encoder.model.config.multi_label)
        if label_separator is not None and not multi_label:
            raise SettingsError(f"--label-separator is for models with several labels; {encoder.name} gives one")
        test = list(encodable(found.test, encoder, report)) if reading.skips_unencodable(sources) else found.test
        if not test:
            raise no_documents(sources, report)
        labels: dict[str, Any] = {"multi_label": multi_label, "separator": label_separator}
        evaluator = ClassificationEvaluator(test, **labels, threshold=threshold)
        train = LabelledDocuments.of(found.train, **labels) if found.train else None
        # What the baseline cannot learn from is refused before the long work.
        baseline = _baseline(evaluator, train) if processes.is_first else []
        totals = Coverage()
        given = evaluator.predict(encoder, processes, totals=totals)
        if not processes.is_first:
            return
    most = MISTAKES if json or html else SHOWN_MISTAKES
    wrong = evaluator.mistakes(encoder, given, most)
    rows = [Row(model.model or "mini", "model", evaluator.score(given)), *baseline]
    scores, labelled, places = rows[0].scores, evaluator.labelled, report.places or {}
    content = {
        "format": "graphdoc.classification/1",
        "model": encoder.describe(),
        "classes": list(given.classes),
        "multi_label": multi_label,
        "threshold": given.threshold,
        "data": {
            "documents": len(labelled),
            "without_label": len(labelled.without_label),
            "with_several_labels": len(labelled.with_several),
            "train": len(train) if train is not None else None,
        },
        "coverage": totals.to_dict(),
        "rows": [{"name": row.name, "role": row.role, **row.scores.to_dict()} for row in rows],
        "mistakes": [{**mistake.to_dict(PASSAGES), "place": places.get(mistake.prediction.id)} for mistake in wrong],
    }

    def draw_confusion(path: str) -> None:
        from ..evaluation.drawing.classification import plot_confusion

        title = f"{encoder.name}: accuracy {scores.accuracy:.3f} on {scores.documents:,} documents"
        plot_confusion(scores, title, path)

    def draw_reliability(path: str) -> None:
        from ..evaluation.drawing.classification import plot_reliability

        assert scores.calibration is not None
        plot_reliability(scores.calibration, encoder.name, path)

    def page(path: str) -> None:
        from ..evaluation.drawing.mistakes import write_mistakes

        write_mistakes(path, wrong, scores, encoder.name, places=places, passages=PASSAGES)

    totals.warn()
    show(
        outputs,
        content,
        [_table(rows, several=multi_label), _classes_of_model(scores)],
        [*_mistakes(wrong), *_notes(rows, labelled, given.classes, train), *found.notes()],
        report,
        csv=_classes_of_all(rows).write_csv,
        plot=draw_confusion,
        reliability=draw_reliability,
        html=page,
    )


def _baseline(evaluator: ClassificationEvaluator, train: LabelledDocuments | None) -> list[Row]:
    """The row of word counts, if there is anything to learn from.

    Raises:
        EvaluationError: the train documents teach nothing.
    """
    from ..evaluation import classification_scores
    from ..evaluation.baselines import TFIDF_SVM, lexical_predictions

    if train is None:
        return []
    labelled = evaluator.labelled
    predicted = lexical_predictions(train, labelled.documents)
    scores = classification_scores(labelled.labels, predicted, train.classes, multi_label=evaluator.multi_label)
    return [Row(TFIDF_SVM, "words", scores)]


def _table(rows: list[Row], *, several: bool) -> Table:
    numbers = ["all right", "micro F1"] if several else ["accuracy"]
    result = Table([names("labels by", 44), names("kind"), *numbers, "macro F1", "calibration error"])
    for row in rows:
        scores = row.scores
        cells = [scores.accuracy, *([scores.micro_f1] if several else []), scores.macro_f1]
        result.add(row.name, row.role, *cells, "" if scores.calibration is None else scores.calibration.error)
    return result


def _classes_of_model(scores: ClassificationScores) -> Table:
    result = Table([names("label", 60), "precision", "recall", "F1", "documents", "given"])
    for one in scores.classes:
        name = f"{one.label} (unknown to the model)" if one.label in scores.unknown else one.label
        result.add(name, one.precision, one.recall, one.f1, one.documents, one.given)
    return result


def _classes_of_all(rows: list[Row]) -> Table:
    classes = [{"name": row.name, "role": row.role, **asdict(one)} for row in rows for one in row.scores.classes]
    return Table(list(classes[0]), [list(one.values()) for one in classes])


def _mistakes(mistakes: list[ExplainedMistake]) -> list[str]:
    """The mistakes that the model is most sure of, one line each."""
    lines = ["mistakes that the model is most sure of:"] if mistakes else []
    for explained in mistakes[:SHOWN_MISTAKES]:
        mistake = explained.mistake
        does = "misses" if mistake.missed else "gets"
        labels = ", ".join(explained.truth) or "none"
        line = f"{shown(mistake.confidence)} {explained.prediction.id} {does} {mistake.label}, labelled {labels}"
        lines.append(one_line(line, LINE_WIDTH))
    return lines


def _notes(
    rows: list[Row], labelled: LabelledDocuments, classes: tuple[str, ...], train: LabelledDocuments | None
) -> list[str]:
    """What has to be known to read the tables, one line each."""
    scores = rows[0].scores
    line = f"{counted(len(labelled), 'document')} with labels, {len(classes):,} classes"
    if train is not None:
        line += f"; {rows[1].name} learned from {counted(len(train), 'train document')}"
    lines = [line]
    if labelled.left_out:
        without, several = len(labelled.without_label), len(labelled.with_several)
        lines.append(f"left out: {without:,} without a label, {several:,} with several or an empty list")
    if scores.unknown:
        named = [f"{name} ({count:,})" for name, count in list(scores.unknown.items())[:_MOST_NAMED]]
        more = ", ..." if len(scores.unknown) > _MOST_NAMED else ""
        known = "" if scores.accuracy_known is None else f"; without these documents {scores.accuracy_known:.3f}"
        lines.append(f"labels that the model does not know count as missed: {', '.join(named)}{more}{known}")
    return lines
