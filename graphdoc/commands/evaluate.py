"""graphdoc evaluate: what its tasks share: documents, models with their baselines, and how results are shown."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import EvaluationError, ModelError
from .arguments import load_encoder
from .outputs import Outputs, write_json
from .sources import encodable, read_many
from .summaries import list_left_out, print_lines
from .tables import Table

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..documents.readers import ReadingReport
    from ..encoder import DocumentEncoder
    from ..evaluation import ClusteringEvaluator, PairEvaluator
    from ..runtime.processes import Processes

HELP = "measure models on labelled documents and pairs, and searches on queries"
DESCRIPTION = """Measure models on labelled documents: their vectors next to those of untrained models, or the labels
that they give next to those that words alone give. Or measure searches on queries whose answers are known."""
EPILOG = """examples:
  graphdoc evaluate all --sets sets.yaml --model mini --model runs/a/model
  graphdoc evaluate cluster --data corpus.jsonl --model mini
  graphdoc evaluate classify --data corpus.jsonl --model runs/topics/model
  graphdoc evaluate compare --data corpus.jsonl --pairs pairs.tsv --model mini
  graphdoc evaluate search --data judged --index papers.index
  graphdoc evaluate related --corpus papers/ --relevant links.tsv
  graphdoc evaluate TASK --help   says more about the task
"""

Measuring = TypeVar("Measuring", "ClusteringEvaluator", "PairEvaluator")


@dataclass(frozen=True)
class Parts:
    """The documents that were read: train, test, and those of other parts."""

    train: list[Document]
    test: list[Document]
    others: list[Document]

    def encodable(self, encoder: DocumentEncoder, report: ReadingReport) -> Parts:
        """The documents that give passages; others are listed in the report."""
        return Parts(*(list(encodable(part, encoder, report)) for part in (self.train, self.test, self.others)))

    def notes(self) -> list[str]:
        """That documents are in two parts, where they are."""
        shared = len({document.id for document in self.train} & {document.id for document in self.test})
        return [f"{shared:,} ids occur in train and in test"] if shared else []


def add_part_arguments(parser: argparse.ArgumentParser, *, train: str, test: str) -> None:
    """Add how train and test documents are named.

    Args:
        parser: the parser.
        train: what train documents are for.
        test: what test documents are for.
    """
    group = parser.add_argument_group("documents")
    group.add_argument("--data", metavar="SOURCE", nargs="+", help="corpora with a column split: train or test")
    group.add_argument(
        "--test-split", default="test", metavar="VALUE", help="value of split that is measured (default: test)"
    )
    group.add_argument("--train", metavar="SOURCE", nargs="+", help=train)
    group.add_argument("--test", metavar="SOURCE", nargs="+", help=test)


def part_sources(options: argparse.Namespace, *, needs_train: bool = True) -> list[str]:
    """All sources of train and test.

    Raises:
        EvaluationError: they are named in both ways, or by half.
    """
    data, train, test = options.data or [], options.train or [], options.test or []
    if bool(data) == bool(test) or (train and not test) or (needs_train and test and not train):
        raise EvaluationError("give the documents as --data SOURCE, or as --train SOURCE and --test SOURCE")
    return [*data, *train, *test]


def read_parts(options: argparse.Namespace, report: ReadingReport) -> Parts:
    """Read the documents, and separate train from test.

    Args:
        options: the arguments.
        report: is filled while documents are read.

    Raises:
        EvaluationError: there is no document to be measured.
    """
    parts = Parts([], [], [])
    if options.data:
        by_split = {"train": parts.train, options.test_split: parts.test}
        for document in read_many(options.data, options, report):
            by_split.get(str(document.metadata.get("split")), parts.others).append(document)
    else:
        parts.train.extend(read_many(options.train, options, report) if options.train else ())
        parts.test.extend(read_many(options.test, options, report))
    if not parts.test:
        wanted = f"has split={options.test_split!r}" if options.data else "is there"
        raise EvaluationError(f"no document of {' '.join(options.data or options.test)} {wanted}")
    return parts


@dataclass(frozen=True)
class Candidate:
    """An encoder that is measured.

    Args:
        encoder: the encoder.
        name: what the table calls it.
        role: what it is there for, ``model`` or ``untrained``.
        base: name of the untrained row of a model's backbone; None for that itself, or without one.
    """

    encoder: DocumentEncoder
    name: str
    role: str
    base: str | None = None


def add_baseline_argument(parser: argparse._ActionsContainer) -> None:
    """Add where the backbone is that models are compared with."""
    parser.add_argument(
        "--baseline", metavar="BACKBONE", help="where the models' backbone is, if not under the name they know"
    )


@contextmanager
def processes_of(options: argparse.Namespace) -> Iterator[Processes]:
    """The processes that torchrun or accelerate launch started, or this one; each encodes its share."""
    from ..runtime.processes import Processes, usable_device

    with Processes(usable_device(options.device)) as processes:
        yield processes


def load_candidates(options: argparse.Namespace) -> tuple[list[Candidate], list[str]]:
    """Load all encoders before the long work starts: untrained backbones, then the models.

    Args:
        options: the arguments.

    Returns:
        The encoders; a line for every backbone that cannot be loaded.

    Raises:
        ModelError: a model, or a backbone that was named, cannot be loaded.
    """
    from ..evaluation.baselines import has_same_passage_vectors, untrained_mean

    untrained: list[Candidate] = []
    models: list[Candidate] = []
    missing = []
    for name in dict.fromkeys(options.model or ["mini"]):
        model = load_encoder(options, name)
        base = None
        try:
            encoder = untrained_mean(model, options.baseline, device=options.device, dtype=options.dtype)
        except ModelError as error:
            if options.baseline is not None:
                raise
            missing.append(f"not measured: untrained backbone of {name}: {error}")
        else:
            base = next((one for one in untrained if has_same_passage_vectors(encoder, one.encoder)), None)
            if base is None:
                taken = any(one.name == encoder.name for one in untrained)
                base = Candidate(encoder, f"{encoder.name} as {name}" if taken else encoder.name, "untrained")
                untrained.append(base)
        models.append(Candidate(model, name, "model", None if base is None else base.name))
    return [*untrained, *models], missing


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

    prepared: list[tuple[DocumentEncoder, Measuring]] = []
    for number, candidate in enumerate(candidates):
        encoder = candidate.encoder
        shared = next((found for other, found in prepared if has_same_passage_vectors(other, encoder)), None)
        if shared is None and any(has_same_passage_vectors(encoder, one.encoder) for one in candidates[number + 1 :]):
            shared = evaluator.prepared(encoder, processes, encode_passages=True, show_progress=None)
            prepared.append((encoder, shared))
        yield candidate, shared or evaluator


def show(
    options: argparse.Namespace,
    outputs: Outputs,
    content: Mapping[str, Any],
    tables: Sequence[Table],
    notes: Sequence[str],
    report: ReadingReport | None,
    **writers: Callable[[str], object],
) -> None:
    """Write the files that are asked for, and print tables and notes.

    Args:
        options: the arguments.
        outputs: the files of the task.
        content: what ``--json`` writes.
        tables: the tables.
        notes: what has to be known to read them, one line each.
        report: how documents were read.
        **writers: write the other files, by option.
    """
    target = outputs.write(options, json=lambda path: write_json(path, content), **writers)
    if target is None:
        return
    for table in tables:
        table.print(target)
        target.print()
    print_lines(target, notes)
    if report is not None:
        list_left_out(target, report)
    outputs.report(options, target)
