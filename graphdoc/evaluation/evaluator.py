"""The base of all evaluators: documents that are encoded once, numbers by name, and which of them is best."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, TypeVar

from ..encoder import DocumentEncoder
from ..inference.precision import Precision
from ..runtime.arrays import Vectors
from ..runtime.processes import Processes, gathered, interleaved, share_of
from ..segmentation.spans import Coverage
from .labels import ReadyDocument, plain_document

T = TypeVar("T")


def greater_is_better(metric: str) -> bool:
    """Whether a higher value of a number is better, by its name."""
    return not metric.endswith(("loss", "error"))


class Evaluator(ABC):
    """Measures encoders on the same documents, always in the same way: during training and on the command line.

    A recipe makes one evaluator and calls it now and then, in all processes of the run::

        evaluator = ClassificationEvaluator(documents, dtype=precision, primary_metric="macro_f1")
        evaluator = evaluator.prepared(encoder)  # optional: cut and tokenize once
        numbers = evaluator(encoder)  # {"accuracy": ..., "macro_f1": ..., "loss": ...}
        is_better = (numbers[evaluator.primary_metric] > before) == evaluator.greater_is_better

    Documents are read up to the limits of the encoder. Given ``processes``, each encodes a share, and
    all get the numbers of a single one. A model in training is measured in eval mode and is then as it was before; no
    global random generator is used.

    Attributes:
        documents: the documents that are encoded, segmented or not, with the vectors of their passages or not.
        dtype: precision that the transformer computes in; None is that of its weights.
        primary_metric: name of the number by which models are ranked.
    """

    documents: Sequence[ReadyDocument]
    dtype: Precision | None
    primary_metric: str

    @property
    def greater_is_better(self) -> bool:
        """Whether a higher value of ``primary_metric`` is better."""
        return greater_is_better(self.primary_metric)

    @abstractmethod
    def __call__(self, encoder: DocumentEncoder, processes: Processes | None = None) -> dict[str, float]:
        """Measure an encoder, also one whose model is in training: numbers by name, the same in every process.

        Args:
            encoder: the encoder.
            processes: the processes that share the work, all of which have to call; None for this one alone.
        """

    def prepared(
        self,
        encoder: DocumentEncoder,
        processes: Processes | None = None,
        *,
        encode_passages: bool = False,
        show_progress_bar: bool | None = False,
    ) -> Self:
        """The same evaluator with its documents cut and tokenized once, and encoded as far as that can be done once.

        Args:
            encoder: an encoder with the tokenizer and the segmentation of those that will be measured.
            processes: the processes that will share the work; this one prepares its own share only.
            encode_passages: also encode the passages, where all encoders have this passage encoder; ignored with
                structural embeddings, where vectors of passages depend on how documents are split.
            show_progress_bar: show a bar while passages are encoded; None shows it on a terminal when that takes long.
        """
        share = share_of(processes)
        plain = [plain_document(document) for document in self.documents[share]]
        documents = list(self.documents)
        if encode_passages and encoder.model.structural_embeddings is None:
            documents[share] = encoder.with_passage_vectors(
                plain, dtype=self.dtype, totals=Coverage(), show_progress_bar=show_progress_bar
            )
        else:
            documents[share] = encoder.segmenter.segment_many(plain)
        result = copy.copy(self)
        result.documents = documents
        return result

    def encode(
        self,
        encoder: DocumentEncoder,
        processes: Processes | None = None,
        *,
        level: Literal["document", "passage"] = "document",
        totals: Coverage | None = None,
        show_progress_bar: bool | None = None,
    ) -> list[Vectors]:
        """Encode all documents.

        Args:
            encoder: the encoder.
            processes: the processes that share the work; None for this one alone.
            level: one vector a document, or those of its passages.
            totals: where the coverage of all processes is added up.
            show_progress_bar: show a bar; None shows it on a terminal when the work is long.

        Returns:
            ``(1, hidden)`` or ``(passages, hidden)`` for every document, in every process.
        """

        def compute(documents: Sequence[ReadyDocument], coverage: Coverage) -> list[Vectors]:
            options: Any = {"dtype": self.dtype, "totals": coverage, "show_progress_bar": show_progress_bar}
            return [vectors.numpy() for _, vectors in encoder.stream(documents, level=level, **options)]

        return self.in_shares(compute, processes, totals)

    def in_shares(
        self,
        compute: Callable[[Sequence[ReadyDocument], Coverage], list[T]],
        processes: Processes | None,
        totals: Coverage | None,
    ) -> list[T]:
        """One result for every document, in every process; each computes those of its share, and their coverage."""
        coverage = Coverage()
        parts = gathered(processes, (compute(self.documents[share_of(processes)], coverage), coverage))
        if totals is not None:
            for _, part in parts:
                totals += part
        return interleaved([values for values, _ in parts])


def measured_once(processes: Processes | None, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Measure in the first process, and return its numbers in all."""
    return measure() if processes is None else processes.from_first(measure)
