"""Measuring a model on labelled pairs of documents while it is trained to compare."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ..corpus.report import CorpusReport
from ..corpus.source import CorpusSource
from ..documents.document import Document
from ..documents.readers.pair_files import Pairs, read_pair_file
from ..errors import DocumentError
from ..evaluation import PairEvaluator
from ..evaluation.pairs import documents_of_pairs
from ..segmentation.segmenter import Segmenter
from ..segmentation.spans import SegmentedDocument
from ..settings.compare import ComparisonSettings, ValidationPairSettings
from ..settings.corpus import CorpusSettings
from ..settings.view_training import ViewRunSettings
from ..training.loop import RunEvaluation
from .base import Start, transformer_precision


class PairValidation:
    """The validation pairs of a run with their documents, cut and tokenised once, in the first process.

    Args:
        start: what the recipe begins with; its settings have ``validation.pairs``.

    Attributes:
        comparison: measures the model; there in the first process.

    Raises:
        DocumentError: a document of a pair is not there, is there twice or has no text.
        EvaluationError: pairs do not have both labels.
    """

    comparison: PairEvaluator

    def __init__(self, start: Start[ComparisonSettings] | Start[ViewRunSettings]) -> None:
        self._settings, self._encoder = start.settings, start.encoder
        start.processes.run_first(self._read)

    def _read(self) -> None:
        settings = self._settings
        pairs, documents = validation_pairs(settings.validation, settings.corpus, self._encoder.segmenter)
        self.comparison = PairEvaluator(
            documents.values(),
            pairs,
            by="accuracy" if settings.validation.best == "accuracy" else "f1",
            unknown="leave_out",
            lengths=(),
            resamples=0,
            dtype=transformer_precision(settings.training),
        )

    def evaluation(self) -> RunEvaluation:
        """How a run measures its model; where the passage encoder stands still, passages are encoded once."""
        is_encoded = self._settings.model.tune != "frozen"

        def measure() -> Mapping[str, float]:
            nonlocal is_encoded
            if not is_encoded:
                self.comparison = self.comparison.prepared(self._encoder, encode_passages=True)
                is_encoded = True
            return self.comparison(self._encoder)

        validation = self._settings.validation
        return RunEvaluation(measure, f"pair_{validation.best}", True, validation.at_start)

    def describe(self, trained: Collection[str]) -> str:
        """What is measured, in a line; in the first process.

        Args:
            trained: ids of the documents that are trained on.
        """
        comparison = self.comparison
        documents = {id for pair in comparison.pairs for id in (pair.a, pair.b)}
        line = f"{len(comparison.pairs):,} pairs of {len(documents):,} documents to measure"
        reasons = {"unknown": "of unknown documents", "with_themselves": "with themselves"}
        left_out = [f"{count:,} {reasons[name]}" for name, count in comparison.left_out.items() if count]
        line += f"; left out: {', '.join(left_out)}" if left_out else ""
        seen = len(documents.intersection(trained))
        return line + (f"; {seen:,} of these documents are trained on too" if seen else "")


def validation_pairs(
    validation: ValidationPairSettings, corpus: CorpusSettings, segmenter: Segmenter
) -> tuple[Pairs, dict[str, SegmentedDocument]]:
    """The pairs that a run is measured on, and their documents by id.

    Args:
        validation: which pairs.
        corpus: where their documents are, if the former do not say.
        segmenter: cuts them.

    Returns:
        All pairs of the file, and the documents that are there and have text.

    Raises:
        DocumentError: a document of a pair is not there, is there twice or has no text.
    """
    path = Path(validation.pairs or "")
    if not path.exists():
        raise DocumentError(
            f"{path}: there is no such file; give pairs to measure the model on as validation.pairs, or null to "
            "measure nothing"
        )
    pairs = read_pair_file(path)
    wanted = {id for pair in pairs for id in (pair.a, pair.b)}
    source = corpus if validation.source is None else corpus.with_source(validation.source)
    named = documents_of_pairs(documents_named(source, wanted), pairs)
    documents = {one.document.id: one for one in segmenter.segment_many(named.values())}
    pairs.among(documents, validation.unknown, setting="validation.unknown=leave_out")
    for id in [id for id, document in documents.items() if not document.passages]:
        if validation.unknown == "stop":
            raise DocumentError(
                f"{pairs.name}: document {id!r} has no text to encode; leave its pairs out "
                "(validation.unknown=leave_out)"
            )
        del documents[id]
    return pairs, documents


def documents_named(settings: CorpusSettings, ids: Collection[str]) -> Iterator[Document]:
    """The documents of a corpus that have some ids, whatever their split.

    Args:
        settings: the corpus.
        ids: the ids.
    """
    source = CorpusSource(settings.replace(leave_out_splits=[], deduplicate=False))
    return (document for _, document in source.documents(CorpusReport()) if document.id in ids)
