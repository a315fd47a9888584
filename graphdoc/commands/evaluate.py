"""graphdoc evaluate: what its tasks share: documents, models with their baselines, rows, and how results are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cyclopts import Group, Parameter

from ..documents.readers import ReadingReport
from ..errors import EvaluationError, ModelError
from .options import MeasuredModels
from .output import Outputs, write_json
from .printing import Table, list_left_out, print_lines
from .sources import LabelledReading, encodable

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder
    from ..segmentation.spans import Coverage


@Parameter(name="*", group=Group("Documents", sort_key=1))
@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """How train and test documents are named, where no corpus says it in its column split."""

    train: tuple[str, ...] = ()
    """train documents, in place of a corpus; may be repeated"""
    test: tuple[str, ...] = ()
    """test documents, in place of a corpus; may be repeated"""

    def sources(self, corpora: Sequence[str], *, needs_train: bool = True) -> list[str]:
        """All sources of train and test.

        Args:
            corpora: corpora with a column split.
            needs_train: whether there have to be train documents.

        Raises:
            EvaluationError: they are named in both ways, or by half.
        """
        train, test = self.train, self.test
        if bool(corpora) == bool(test) or (train and not test) or (needs_train and test and not train):
            raise EvaluationError("name a corpus with a column split, or --train SOURCE and --test SOURCE")
        return [*corpora, *train, *test]

    def read(
        self, corpora: Sequence[str], reading: LabelledReading, report: ReadingReport
    ) -> tuple[list[Document], list[Document]]:
        """Read train and test documents.

        Args:
            corpora: corpora with a column split.
            reading: how they are read.
            report: is filled while documents are read.

        Raises:
            EvaluationError: there is no document to be measured.
        """
        train: list[Document] = []
        test: list[Document] = []
        if corpora:
            parts = {"train": train, "test": test}
            for document in reading.many(corpora, report):
                parts.get(str(document.metadata.get("split")), []).append(document)
        else:
            train.extend(reading.many(self.train, report) if self.train else ())
            test.extend(reading.many(self.test, report))
        if not test:
            wanted = "has test in its column split" if corpora else "is there"
            raise EvaluationError(f"no document of {' '.join(corpora or self.test)} {wanted}")
        return train, test


def kept(
    documents: Sequence[Document], encoder: DocumentEncoder, report: ReadingReport, *, skip: bool
) -> list[Document]:
    """The documents that are measured: all of them, or without those that give no passages."""
    return list(encodable(documents, encoder, report) if skip else documents)


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


@dataclass(frozen=True)
class Row:
    """One line of the tables: what was measured of an encoder, or of words.

    Args:
        name: what the table calls it.
        role: what it is there for.
        scores: what was measured.
        coverage: how much of the documents it read; None for words, which are all read.
        model: its description; None for words.
        values: what was measured on, for pictures.
    """

    name: str
    role: str
    scores: Any
    coverage: Coverage | None = None
    model: Mapping[str, Any] | None = None
    values: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the values as plain values for JSON."""
        result = {"name": self.name, "role": self.role, **self.scores.to_dict()}
        coverage = self.coverage and self.coverage.to_dict()
        return result if self.model is None else result | {"coverage": coverage, "model": self.model}


def load_candidates(models: MeasuredModels, baseline: str | None) -> tuple[list[Candidate], list[str]]:
    """Load all encoders before the long work starts: untrained backbones, then the models.

    Args:
        models: the models.
        baseline: where their backbone is, if not under the name that they know.

    Returns:
        The encoders; a line for every backbone that cannot be loaded.

    Raises:
        ModelError: a model, or a backbone that was named, cannot be loaded.
    """
    from ..evaluation.baselines import has_same_passage_vectors, untrained_mean

    untrained: list[Candidate] = []
    trained: list[Candidate] = []
    missing = []
    for name in models.names:
        model = models.load(name)
        base = None
        try:
            encoder = untrained_mean(model, baseline, device=models.device)
        except ModelError as error:
            if baseline is not None:
                raise
            missing.append(f"not measured: untrained backbone of {name}: {error}")
        else:
            base = next((other for other in untrained if has_same_passage_vectors(encoder, other.encoder)), None)
            if base is None:
                taken = any(other.name == encoder.name for other in untrained)
                base = Candidate(encoder, f"{encoder.name} as {name}" if taken else encoder.name, "untrained")
                untrained.append(base)
        trained.append(Candidate(model, name, "model", None if base is None else base.name))
    return [*untrained, *trained], missing


def show(
    outputs: Outputs,
    content: Mapping[str, Any],
    tables: Sequence[Table],
    notes: Sequence[str],
    report: ReadingReport | None,
    **writers: Callable[[str], object],
) -> None:
    """Write the files that are asked for, and print tables and notes.

    Args:
        outputs: the files that are asked for.
        content: what ``--json`` writes.
        tables: the tables.
        notes: what has to be known to read them, one line each.
        report: how documents were read.
        **writers: write the other files, by option.
    """
    target = outputs.write(json=lambda path: write_json(path, content), **writers)
    if target is None:
        return
    for table in tables:
        table.print(target)
        target.print()
    print_lines(target, notes)
    if report is not None:
        list_left_out(target, report)
    outputs.report(target)
