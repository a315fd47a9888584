"""The encoders that an evaluation measures: models, and what they are compared with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ..errors import EvaluationError, ModelError
from .arguments import load_encoder

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder
    from ..evaluation import ClusteringEvaluator, PairEvaluator
    from ..runtime.processes import Processes

Measuring = TypeVar("Measuring", "ClusteringEvaluator", "PairEvaluator")


@dataclass(frozen=True)
class Candidate:
    """An encoder that will be measured, and what it is there for."""

    encoder: DocumentEncoder
    name: str
    role: str


@dataclass(frozen=True)
class Skipped:
    """An encoder that cannot be loaded, and why."""

    name: str
    role: str
    reason: str

    def __str__(self) -> str:
        return f"not measured: {self.name} ({self.role}): {self.reason}"


def add_baseline_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of what models are compared with."""
    group = parser.add_argument_group("what models are compared with")
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


@contextmanager
def processes_of(options: argparse.Namespace) -> Iterator[Processes]:
    """The processes that torchrun or accelerate launch started, or this one; each encodes its share."""
    from ..runtime.processes import Processes, usable_device

    with Processes(usable_device(options.device)) as processes:
        yield processes


def load_candidates(options: argparse.Namespace) -> tuple[list[Candidate], list[Skipped]]:
    """Load all encoders before the long work starts: other encoders, untrained backbones, then the models.

    Args:
        options: the arguments.

    Returns:
        The encoders, and those that cannot be loaded.

    Raises:
        ModelError: a model, or a backbone that was named, cannot be loaded.
    """
    from ..evaluation.baselines import has_same_passage_vectors, untrained_mean
    from ..evaluation.text_chunks import first_chunk_encoder

    how = {"device": options.device, "dtype": options.dtype}
    names = list(dict.fromkeys(options.model or ["mini"]))
    models = [load_encoder(options, name) for name in names]
    result: list[Candidate] = []
    skipped: list[Skipped] = []
    for name in dict.fromkeys(options.cls_baseline):
        try:
            encoder = first_chunk_encoder(name, **how)
            result.append(Candidate(encoder, encoder.name, "[CLS]"))
        except ModelError as error:
            skipped.append(Skipped(name, "[CLS]", str(error)))
    untrained: list[Candidate] = []
    for name, model in zip(names, models, strict=True) if not options.no_baseline else ():
        try:
            encoder = untrained_mean(model, options.baseline, **how)
        except ModelError as error:
            if options.baseline is not None:
                raise
            skipped.append(Skipped(f"backbone of {name}", "untrained", str(error)))
            continue
        if not any(has_same_passage_vectors(encoder, other.encoder) for other in untrained):
            taken = any(other.name == encoder.name for other in untrained)
            untrained.append(Candidate(encoder, f"{encoder.name} as {name}" if taken else encoder.name, "untrained"))
    return [*result, *untrained, *(Candidate(*both, "model") for both in zip(models, names, strict=True))], skipped


def with_shared_passages(
    evaluator: Measuring, candidates: Sequence[Candidate], processes: Processes
) -> Iterator[tuple[Candidate, Measuring]]:
    """Every candidate with what measures it; passages that several of them encode alike are encoded once.

    Args:
        evaluator: what measures encoders.
        candidates: the encoders.
        processes: the processes that share the work.
    """
    from ..evaluation.baselines import has_same_passage_vectors

    ready: list[tuple[DocumentEncoder, Measuring]] = []
    for number, candidate in enumerate(candidates):
        encoder = candidate.encoder
        found = next((made for leader, made in ready if has_same_passage_vectors(leader, encoder)), None)
        if found is None and any(has_same_passage_vectors(encoder, one.encoder) for one in candidates[number + 1 :]):
            found = evaluator.prepared(encoder, processes, encode_passages=True, show_progress=None)
            ready.append((encoder, found))
        yield candidate, found or evaluator
