"""The encoders that an evaluation measures: models, and what they are held against."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ..errors import EvaluationError, ModelError
from .arguments import load_encoder

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder
    from ..evaluation import ClusteringEvaluator, PairEvaluator

Measuring = TypeVar("Measuring", "ClusteringEvaluator", "PairEvaluator")


@dataclass(frozen=True)
class Candidate:
    """An encoder that will be measured; ``same_as`` is the place of another one that gives the same vectors."""

    encoder: DocumentEncoder
    name: str
    role: str
    same_as: int | None = None


def add_baseline_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of what models are held against."""
    group = parser.add_argument_group("what models are held against")
    group.add_argument(
        "--baseline", metavar="BACKBONE", help="where the models' backbone is, if not under the name they know"
    )
    group.add_argument("--no-baseline", action="store_true", help="leave out the untrained backbone")
    group.add_argument(
        "--cls-baseline",
        metavar="NAME",
        action="append",
        default=[],
        help="an encoder by its [CLS] vector, such as roberta-base; may be given several times",
    )


def check_baselines(options: argparse.Namespace) -> None:
    """Refuse baselines that contradict each other.

    Raises:
        EvaluationError: they do.
    """
    if options.no_baseline and options.baseline is not None:
        raise EvaluationError("--baseline and --no-baseline contradict each other; give one of them")


def load_candidates(options: argparse.Namespace, skipped: list[dict[str, str]]) -> list[Candidate]:
    """Load all encoders before the long work starts: other encoders, untrained backbones, then the models.

    Args:
        options: the arguments.
        skipped: gets an entry of ``name``, ``role`` and ``reason`` for everything that cannot be loaded.

    Raises:
        ModelError: a model, or a backbone that was named, cannot be loaded.
    """
    from ..evaluation.baselines import first_chunk_encoder, is_same_model, untrained_mean

    names = list(dict.fromkeys(options.model or ["mini"]))
    models = [load_encoder(options, name) for name in names]
    result: list[Candidate] = []
    for name in dict.fromkeys(options.cls_baseline):
        try:
            encoder = first_chunk_encoder(name, device=options.device, dtype=options.dtype)
            result.append(Candidate(encoder, encoder.name, "[CLS]"))
        except ModelError as error:
            skipped.append({"name": name, "role": "[CLS]", "reason": str(error)})
    untrained: list[Candidate] = []
    for name, model in zip(names, models, strict=True):
        if options.no_baseline:
            break
        try:
            encoder = untrained_mean(model, options.baseline, device=options.device, dtype=options.dtype)
        except ModelError as error:
            if options.baseline is not None:
                raise
            skipped.append({"name": f"backbone of {name}", "role": "untrained", "reason": str(error)})
            continue
        if not any(is_same_model(encoder, other.encoder) for other in untrained):
            taken = any(other.name == encoder.name for other in untrained)
            untrained.append(Candidate(encoder, f"{encoder.name} as {name}" if taken else encoder.name, "untrained"))
    result += untrained
    for name, model in zip(names, models, strict=True):
        same = next((place for place, other in enumerate(result) if is_same_model(model, other.encoder)), None)
        result.append(Candidate(model, name, "model", same))
    return result


def with_shared_passages(
    evaluation: Measuring, candidates: Sequence[Candidate]
) -> Iterator[tuple[Candidate, Measuring | None]]:
    """Every candidate with what measures it; passages that several of them encode alike are encoded once.

    Args:
        evaluation: what measures encoders.
        candidates: the encoders.

    Yields:
        The candidates in their order; None for one that gives the same vectors as another.
    """
    from ..evaluation.baselines import has_same_passage_vectors

    ready: list[tuple[DocumentEncoder, Measuring]] = []
    for number, candidate in enumerate(candidates):
        encoder = candidate.encoder
        if candidate.same_as is not None:
            yield candidate, None
            continue
        found = next((made for leader, made in ready if has_same_passage_vectors(leader, encoder)), None)
        later = (one for one in candidates[number + 1 :] if one.same_as is None)
        if found is None and any(has_same_passage_vectors(encoder, one.encoder) for one in later):
            found = evaluation.prepared(encoder, encode_passages=True, show_progress=None)
            ready.append((encoder, found))
        yield candidate, found or evaluation


def with_passages(documents: list[Document], encoder: DocumentEncoder, report: ReadingReport) -> list[Document]:
    """Leave out and list documents of nothing but invisible characters, which give no passages."""
    from ..documents.readers import Skipped

    kept = []
    for document, segmented in zip(documents, encoder.segmenter.segment_many(documents), strict=True):
        if segmented.passages:
            kept.append(document)
        else:
            report.skipped.append(Skipped(document.id, "it has no text to encode; leave it out"))
    return kept
