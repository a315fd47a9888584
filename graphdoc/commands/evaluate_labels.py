"""graphdoc evaluate cluster and classify: do vectors, or a classifier, find the labels that documents have?"""

from __future__ import annotations

from typing import Annotated, Any

from ..documents.document import Document
from ..documents.readers import ReadingReport
from ..errors import SettingsError
from ..runtime.imports import quick_imports
from ..runtime.text import counted, one_line
from .evaluate import MeasuredRow, PartOptions, load_candidates, prepared_for, show
from .options import COUNT, PROBABILITY, File, Json, MeasuredModel, MeasuredModels
from .output import LINE_WIDTH, Outputs, Table, TableColumn, names, shown, whole_percent
from .sources import LabelledReading, not_empty

# Mistakes that are printed.
_SHOWN_MISTAKES = 5


def evaluate_cluster(
    *corpora: str,
    parts: PartOptions = PartOptions(),
    seeds: Annotated[int, COUNT] = 5,
    probe: bool = False,
    baseline: str | None = None,
    json: Json = None,
    csv: File = None,
    plot: File = None,
    model: MeasuredModels = MeasuredModels(),
    reading: LabelledReading = LabelledReading(),
) -> None:
    """Fit k-means on the vectors of train documents, apply it to test documents, and compare clusters with labels.

    NMI and purity over several seeds, and a linear probe (--probe). The backbone of every model is measured too as it
    was before training, with a mean over its passages: the gap shows what training contributes.

    Usage examples:
      graphdoc evaluate cluster corpus.jsonl --model mini --model runs/a/model --plot tsne.png

    Args:
        corpora: labelled documents whose column split says train or test
        seeds: runs of k-means
        probe: also fit a linear probe: accuracy, macro F1
        baseline: where the models' backbone is, if not under the name they know
        csv: write the table as CSV
        plot: draw test documents by t-SNE (.png, .svg, .pdf)
    """
    sources = parts.sources(corpora)
    outputs = Outputs(sources, json=json, csv=csv, plot=plot)

    with quick_imports():
        from ..evaluation import ClusteringEvaluator
        from ..runtime.processes import Processes, usable_device

    rows: list[MeasuredRow] = []
    with Processes(usable_device(model.device)) as processes:
        report = ReadingReport()
        read = parts.read(corpora, reading, report)
        candidates, notes = load_candidates(model, baseline)
        train, test = (list(reading.encodable(part, candidates[0].encoder, sources, report)) for part in read)
        evaluator = ClusteringEvaluator(train, test, seeds=range(seeds), probe=probe)
        for candidate, prepared, coverage in prepared_for(candidates, evaluator, processes):
            vectors = prepared.vectors(candidate.encoder, processes, totals=coverage)
            if processes.is_first:
                scores, about = evaluator.score(*vectors), candidate.encoder.describe()
                rows.append(MeasuredRow(candidate.name, candidate.role, scores, coverage, about, vectors[1]))
        if not processes.is_first:
            return

    def draw(path: str) -> None:
        from ..analysis.figures.measured import plot_projection
        from ..analysis.projection import project, sample_rows

        chosen = sample_rows(len(evaluator.test_labels))
        points = {row.name: project(row.values[chosen]) for row in rows}
        plot_projection(points, [evaluator.test_labels[row] for row in chosen], path)

    metrics = [row.scores.metrics() for row in rows]
    spreads = [TableColumn(heading, lambda pair: f"{pair[0]:.3f} ± {pair[1]:.3f}") for heading in ("NMI", "purity")]
    table = Table(
        [names("vectors of", 44), names("kind"), TableColumn("coverage", whole_percent), *spreads]
        + (["accuracy", "macro F1"] if probe else [])
    )
    for row, numbers in zip(rows, metrics, strict=True):
        share, (nmi, nmi_std, pure, pure_std, *probed) = row.coverage.share if row.coverage else 1.0, numbers.values()
        table.add(row.name, row.role, share, (nmi, nmi_std), (pure, pure_std), *probed)
    sizes, without = (len(evaluator.train_labels), len(evaluator.test_labels)), evaluator.left_out
    lines = [
        f"{sizes[0]:,} train and {sizes[1]:,} test documents with {len(set(evaluator.train_labels))} labels; k-means "
        f"with {evaluator.clusters} clusters, {len(evaluator.seeds)} seeds"
    ]
    if any(without.values()):
        lines.append(f"left out for want of one label: {without['train']:,} of train, {without['test']:,} of test")
    cells_of = ((row.name, row.role, *numbers.values()) for row, numbers in zip(rows, metrics, strict=True))
    data = {"train": sizes[0], "test": sizes[1], "without_label": without}
    content = {"format": "graphdoc.clustering/1", "data": data, "rows": [row.to_dict() for row in rows]}
    write_csv = Table(["model", "role", *metrics[0]], cells_of).write_csv
    show(outputs, content, [table], [*lines, *_in_both(train, test), *notes], report, csv=write_csv, plot=draw)


def _in_both(train: list[Document], test: list[Document]) -> list[str]:
    shared = len({document.id for document in train} & {document.id for document in test})
    return [f"{shared:,} ids occur in train and in test"] if shared else []


def evaluate_classify(
    *corpora: str,
    parts: PartOptions = PartOptions(),
    label_separator: str | None = None,
    threshold: Annotated[float | None, PROBABILITY] = None,
    json: Json = None,
    csv: File = None,
    plot: File = None,
    model: MeasuredModel = MeasuredModel(),
    reading: LabelledReading = LabelledReading(),
) -> None:
    """Predict the labels of documents and compare them with those that they have.

    Accuracy, macro F1, a table by class, which classes are taken for which, and whether probabilities are as right as
    they claim. The mistakes that the model is surest of are listed; graphdoc predict shows the passages behind them.
    Where there are train documents, TF-IDF and a linear support vector machine learn from them and are measured on the
    same documents: the gap shows what the model contributes.

    Documents without a label, or with several where the model gives one, are left out and counted. A label that the
    model does not know counts as missed, and is named.

    Usage examples:
      graphdoc evaluate classify corpus.jsonl --model runs/topics/model --plot confusion.png
      graphdoc evaluate classify --train train.csv --test test.csv --model runs/tags/model --label-separator ";"

    Args:
        corpora: labelled documents whose column split says train or test
        label_separator: what stands between the labels of one cell, for models with several labels
        threshold: probability from which on a document gets a class, for models with several labels (default: 0.5)
        csv: write the table by class as CSV
        plot: draw the confusion matrix of a model with one label (.png, .svg, .pdf)
    """
    sources = parts.sources(corpora, needs_train=False)
    outputs = Outputs(sources, json=json, csv=csv, plot=plot)

    with quick_imports():
        from ..evaluation import ClassificationEvaluator, LabelledDocuments, classification_scores
        from ..evaluation.baselines import TFIDF_SVM, lexical_predictions
        from ..evaluation.labels import first_three_names
        from ..runtime.processes import Processes, usable_device
    from ..segmentation.spans import Coverage

    with Processes(usable_device(model.device)) as processes:
        report = ReadingReport()
        train, test = parts.read(corpora, reading, report)
        encoder = model.load()
        multi_label = bool(encoder.model.config.multi_label)
        if multi_label and plot is not None:
            raise SettingsError("--plot draws which class is taken for which; this model gives several; leave it out")
        test = list(not_empty(reading.encodable(test, encoder, sources, report), sources, report))
        labels: dict[str, Any] = {"multi_label": multi_label, "separator": label_separator}
        evaluator = ClassificationEvaluator(test, **labels, threshold=threshold)
        labelled = evaluator.labelled
        learned = LabelledDocuments.from_documents(train, **labels) if train else None
        rows = []
        if learned is not None and processes.is_first:
            # What the baseline cannot learn from is refused before the long work.
            by_words = lexical_predictions(learned, labelled.documents)
            scores = classification_scores(labelled.labels, by_words, learned.classes, multi_label=multi_label)
            rows = [MeasuredRow(TFIDF_SVM, "words", scores)]
        totals = Coverage()
        predicted = evaluator.predict(encoder, processes, totals=totals)
        if not processes.is_first:
            return
    mistakes = evaluator.mistakes(predicted)
    scores = evaluator.score(predicted)
    rows.insert(0, MeasuredRow(model.model or "mini", "model", scores))
    content = {
        "format": "graphdoc.classification/1",
        "model": encoder.describe(),
        "classes": list(predicted.classes),
        "multi_label": multi_label,
        "threshold": predicted.threshold,
        "data": {
            "documents": len(labelled),
            "without_label": len(labelled.without_label),
            "with_several_labels": len(labelled.with_several),
            "train": len(learned) if learned is not None else None,
        },
        "coverage": totals.to_dict(),
        "rows": [row.to_dict() for row in rows],
        "mistakes": mistakes,
    }

    def draw(path: str) -> None:
        from ..analysis.figures.measured import plot_confusion

        assert scores.confusion is not None
        title = f"{encoder.name}: accuracy {scores.accuracy:.3f} on {scores.documents:,} documents"
        plot_confusion(scores.confusion, [one.label for one in scores.classes], title, path)

    accuracies = ["all right", "micro F1"] if multi_label else ["accuracy"]
    table = Table([names("labels by", 44), names("kind"), *accuracies, "macro F1", "calibration error"])
    for row in rows:
        micro = [row.scores.micro_f1] if multi_label else []
        error = row.scores.calibration_error
        table.add(row.name, row.role, row.scores.accuracy, *micro, row.scores.macro_f1, "" if error is None else error)
    classes = Table([names("label", 60), "precision", "recall", "F1", "documents", "predicted"])
    for one in scores.classes:
        name = f"{one.label} (unknown to the model)" if one.label in scores.unknown else one.label
        classes.add(name, *one[1:])
    lines = ["mistakes that the model is surest of:"] if mistakes else []
    for mistake in mistakes[:_SHOWN_MISTAKES]:
        does = "misses" if mistake["missed"] else "gets"
        line = f"{shown(mistake['confidence'])} {mistake['id']} {does} {mistake['label']}, labelled "
        lines.append(one_line(line + (", ".join(mistake["truth"]) or "none"), LINE_WIDTH))
    read = f"; {TFIDF_SVM} learned from {counted(len(learned), 'train document')}" if learned is not None else ""
    lines.append(f"{counted(len(labelled), 'document')} with labels, {len(predicted.classes):,} classes{read}")
    if labelled.left_out:
        without, several = len(labelled.without_label), len(labelled.with_several)
        lines.append(f"left out: {without:,} without a label, {several:,} with several or an empty list")
    if scores.unknown:
        unknown = first_three_names(f"{name} ({count:,})" for name, count in scores.unknown.items())
        known = "" if scores.accuracy_known is None else f"; without these documents {scores.accuracy_known:.3f}"
        lines.append(f"labels that the model does not know count as missed: {unknown}{known}")
    by_class = [{"name": row.name, "role": row.role, **one._asdict()} for row in rows for one in row.scores.classes]
    write_csv = Table(list(by_class[0]), [list(one.values()) for one in by_class]).write_csv
    totals.warn()
    show(outputs, content, [table, classes], [*lines, *_in_both(train, test)], report, csv=write_csv, plot=draw)
