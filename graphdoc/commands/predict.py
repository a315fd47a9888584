"""graphdoc predict: which classes documents belong to, and which passages speak for them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from ..documents.readers import ReadingReport
from ..errors import OutputError
from ..runtime.text import counted
from .options import COUNT_FROM_0, OUTPUT, PROBABILITY, EncodingModel, Json
from .output import MOST_ROWS, Outputs, Table, TableColumn, Terminal, names, plain, whole_percent, write_json
from .sources import CorpusReading, not_empty

if TYPE_CHECKING:
    from ..prediction import Prediction

_SUFFIXES = (".jsonl", ".csv", ".parquet")
_SHOWN_CLASSES = 5


def predict(
    *sources: str,
    passages: Annotated[int, COUNT_FROM_0] = 3,
    threshold: Annotated[float | None, PROBABILITY] = None,
    output: Annotated[str | None, OUTPUT] = None,
    json: Json = None,
    model: EncodingModel = EncodingModel(),
    reading: CorpusReading = CorpusReading(),
) -> None:
    """Predict which classes documents belong to, how likely each is, and which passages speak for them.

    The model is one that has learned labels. A passage's contribution is what it adds to the logit of a class; where
    document vectors are weighted sums of passages, contributions and a bias add up to the logit exactly.

    With --output the predictions are written as they come, in constant memory: one row per document with its label,
    the probabilities of all classes, and the passages. What of the documents was not encoded is counted and reported.

    Usage examples:
      graphdoc predict letters/ --model runs/topics/model
      graphdoc predict one.md --model runs/topics/model --passages 5
      graphdoc predict corpus.jsonl.gz --model runs/topics/model --output predictions.parquet --on-error skip
      graphdoc predict corpus.csv --model runs/tags/model --threshold 0.3 --output predictions.csv

    Args:
        sources: files, folders, globs, corpora or -
        passages: passages to list for every class that a document gets, by falling contribution; 0 for none
        threshold: probability from which on a document gets a class, for models with several labels (default: 0.5)
        output: write one row per document (.jsonl, .csv, .parquet)
    """
    outputs = Outputs(sources, output=output, json=json)
    if output is not None and not output.lower().endswith(_SUFFIXES):
        raise OutputError(f"{output} has no suffix of a table; use one of {', '.join(_SUFFIXES)}")
    report = ReadingReport()
    # What cannot be read at all is reported before a model is loaded.
    documents = not_empty(reading.documents(sources, report), sources, report)
    encoder = model.load()
    from ..prediction import Predictions, stream_predictions, write_predictions
    from ..prediction.predicting import classes_of, threshold_of
    from ..segmentation.spans import Coverage

    classes, multi_label = classes_of(encoder), bool(encoder.model.config.multi_label)
    used_threshold = threshold_of(encoder, threshold)
    totals = Coverage()
    kept: list[Prediction] = []
    counts: Counter[str] = Counter()
    near_chance: Counter[bool] = Counter()

    def summarized() -> Iterator[Prediction]:
        read = reading.encodable(documents, encoder, sources, report)
        options: dict[str, Any] = {"threshold": used_threshold, "explain": passages > 0, "totals": totals}
        for prediction in not_empty(stream_predictions(encoder, read, **options), sources, report):
            if json or len(kept) < MOST_ROWS:
                kept.append(prediction)
            counts.update(prediction.labels or ("(none)",))
            near_chance[prediction.is_near_chance] += 1
            yield prediction

    stream = summarized()
    if not output:
        deque(stream, maxlen=0)

    def content() -> dict[str, Any]:
        predictions = Predictions(tuple(kept), classes, multi_label, used_threshold, encoder.describe(), totals)
        return predictions.to_dict(passages)

    target = outputs.write(
        output=lambda path: write_predictions(path, stream, classes, multi_label=multi_label, passages=passages),
        json=lambda path: write_json(path, content()),
    )
    totals.warn()
    if near_chance.total() == 1:
        _print_one(target, kept[0], passages)
    else:
        _print_many(target, kept[:MOST_ROWS], near_chance, counts)
        target.lines([f"{counted(near_chance.total(), 'document')}, model {encoder.name}"])
    outputs.report(target, report)


def _print_one(target: Terminal, prediction: Prediction, passages: int) -> None:
    document = prediction.document
    target.lines([document.title or document.id])
    ranked = prediction.probabilities.argsort(kind="stable")[::-1].tolist()
    most = max(_SHOWN_CLASSES, len(prediction.labels))
    rows = Table([names("label", 60), "probability", names("")])
    for place in ranked[:most]:
        label = prediction.classes[place]
        rows.add(label, float(prediction.probabilities[place]), "*" if label in prediction.labels else "")
    target.print()
    rows.print(target)
    target.more(len(ranked), "label", most)
    if prediction.is_near_chance:
        target.lines([f"near chance, which is 1 in {len(ranked)}: the passages hardly tell the labels apart"])
    for decision in prediction.decisions:
        target.print()
        target.print(plain(f"passages that speak for {decision.label} (logit {decision.logit:.3f})"), style="bold")
        for row in decision.strongest(passages):
            span = prediction.segmented.passages[row]
            name, text = document.section_name(span.section), prediction.segmented.text(span)
            target.passage(f"{decision.contributions[row]:+.3f} {name}: {text}")
        if decision.words is not None:
            words = ", ".join(f"{word} {added:+.3f}" for word, added in decision.keywords) or "none"
            target.print(plain(f"words that speak for it, within passages: {words}"))
        # Adding zero takes the sign from a zero.
        target.print(f"{round(decision.rest, 3) + 0.0:+.3f} from no passage")
    target.print()
    target.coverage(document.id, prediction.segmented.coverage)


def _print_many(target: Terminal, shown: list[Prediction], near_chance: Counter[bool], counts: Counter[str]) -> None:
    columns = names("document", 36), names("label", 30), "probability", TableColumn("coverage", whole_percent)
    explained = any(prediction.decisions for prediction in shown)
    rows = Table([*columns, names("passage that speaks most for it", 46)] if explained else [*columns])
    for prediction in shown:
        probability = f"{'? ' if prediction.is_near_chance else ''}{prediction.probability:.3f}"
        label, share = ", ".join(prediction.labels) or "(none)", prediction.segmented.coverage.share
        cells: list[Any] = [prediction.id, label, probability, share]
        if explained:
            span = prediction.segmented.passages[prediction.decisions[0].strongest(1)[0]]
            cells.append(f"{prediction.document.section_name(span.section)}: {prediction.segmented.text(span)}")
        rows.add(*cells)
    rows.print(target)
    target.more(near_chance.total(), "document")
    if near_chance[True]:
        chance = f"near chance, which is 1 in {len(shown[0].classes)}"
        target.lines([f"? {counted(near_chance[True], 'document')} with a probability {chance}"])
    target.print()
    Table([names("label", 60), "documents"], counts.most_common()).print(target, "label")
    target.print()
