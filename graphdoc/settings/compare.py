"""The settings of training a model to compare documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from ..documents.readers.pair_files import Unknown
from ..losses import PairCosine, SupervisedContrastive
from ..sampling import DocumentSections, SectionPositions
from ..sampling.document_sections import SplitRule
from ..sampling.group_labels import Joining
from .corpus import LabelledCorpusSettings
from .output_folder import output_folder, require_usable_output
from .training import ModelSettings, TrainingSettings, require_used_rates

GroupsBy = Literal["label", "pairs", "links"]
LossKind = Literal["contrastive", "cosine"]
Best = Literal["auc", "average_precision", "f1", "accuracy"]


@dataclass(frozen=True)
class GroupSettings:
    """What says which documents belong together.

    Args:
        by: ``label``, the column ``corpus.columns.label``; ``pairs``, a file of two ids and 0 or 1; or ``links``, a
            file of two ids, such as citations.
        file: the file of pairs or links.
        unknown: ``stop`` at a pair of which a document is not in the corpus, or ``leave_out`` such pairs and count
            them; None stops at pairs and leaves out links.
        joining: how pairs make groups: connected ``components``, or ``stars``, a document and its partners.
        most: documents that a star has at most; None for no limit.
        smallest: documents that a group must have, 1 or 2. With 1, documents that are alone in their group are trained
            on too: their sections belong together. None is 1 where documents are split into sections, else 2.
        per_batch: documents that a group gives to a batch, about.
        most_share: largest share of a batch for one group.

    Raises:
        ValueError: a value is out of range, or settings do not fit together.
    """

    by: GroupsBy = "label"
    file: str | None = None
    unknown: Unknown | None = None
    joining: Joining = "components"
    most: int | None = None
    smallest: int | None = None
    per_batch: int = 4
    most_share: float = 0.5

    def __post_init__(self) -> None:
        if self.by not in get_args(GroupsBy):
            raise ValueError(f"groups.by={self.by!r} is unknown; use one of {', '.join(get_args(GroupsBy))}")
        if self.by == "label" and self.file is not None:
            raise ValueError(f"groups.file={self.file!r} is for groups.by=pairs or links; set that or leave it out")
        if self.by != "label" and not self.file:
            raise ValueError(f"groups.by={self.by} needs a file of {self.by}; give groups.file")
        if self.most is not None and self.joining != "stars":
            raise ValueError(f"groups.most={self.most} is for groups.joining=stars; set that, or groups.most=null")
        if self.most is not None and self.most < 2:
            raise ValueError(f"groups.most={self.most} must be at least 2, or null for no limit")
        if self.smallest not in (None, 1, 2):
            raise ValueError(f"groups.smallest={self.smallest} must be 1 or 2")
        if self.per_batch < 2:
            raise ValueError(f"groups.per_batch={self.per_batch} must be at least 2")
        if not 0 < self.most_share <= 1:
            raise ValueError(f"groups.most_share={self.most_share} must be above 0 and at most 1")

    @property
    def what_of_unknown(self) -> Unknown:
        """What becomes of pairs whose documents are not all in the corpus."""
        return self.unknown or ("leave_out" if self.by == "links" else "stop")


@dataclass(frozen=True)
class SectionSettings:
    """How documents are split in training (see :class:`~graphdoc.sampling.DocumentSections`).

    Args:
        number: most sections of a document; the paper's is 2, and it tries 2 to 5. 1 leaves documents whole.
        by: ``headings``, or ``length`` to cut all documents into sections of equal length.
        section_positions: ``natural``, or ``shuffled`` to shuffle the sections of a document in every epoch.
        most_tokens: tokens of a section that are trained on, its first ones; the rest is counted. None for no limit.
            The paper tries 1,000, 4,000 and 8,000, and measures on whole documents.

    Raises:
        ValueError: a value is out of range.
    """

    number: int = 2
    by: SplitRule = "headings"
    section_positions: SectionPositions = "natural"
    most_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError(f"sections.number={self.number} must be at least 1 (2 is usual)")
        if self.most_tokens is not None and self.most_tokens < 1:
            raise ValueError(f"sections.most_tokens={self.most_tokens} must be at least 1, or null for no limit")

    def sections(self, seed: int) -> DocumentSections:
        """What splits documents.

        Args:
            seed: seed of the run.
        """
        return DocumentSections(self.number, self.by, self.section_positions, seed)


@dataclass(frozen=True)
class ComparisonLoss:
    """What tells documents of one group from others.

    Args:
        kind: ``contrastive`` draws all sections of a group together; ``cosine`` trains on the labelled pairs
            themselves, on document vectors (the paper's "without contrastive loss").
        temperature: what cosines are divided by, for ``contrastive``.
        margin: cosine up to which dissimilar documents are left where they are, for ``cosine``.

    Raises:
        ValueError: a value is out of range.
    """

    kind: LossKind = "contrastive"
    temperature: float = 0.5
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(LossKind):
            raise ValueError(f"loss.kind={self.kind!r} is unknown; use one of {', '.join(get_args(LossKind))}")
        SupervisedContrastive(self.temperature)
        PairCosine(self.margin)


@dataclass(frozen=True)
class PairValidationSettings:
    """Labelled pairs that a model is measured on while it is trained.

    Args:
        pairs: file of pairs, two ids and 0 or 1 with tabs between; None for no measuring: the last model is then the
            result.
        source: where the documents of the pairs are, if not in the corpus; those of the corpus are found whatever
            their split.
        unknown: ``stop`` at a pair of which a document is not there, or ``leave_out`` such pairs.
        best: the number by which the best checkpoint is told. F1 and accuracy are those of the threshold that is best
            on these very pairs.
        at_start: also measure before the first step.
    """

    pairs: str | None = None
    source: list[str] | str | None = None
    unknown: Unknown = "stop"
    best: Best = "auc"
    at_start: bool = True

    def __post_init__(self) -> None:
        if self.source is not None and self.pairs is None:
            raise ValueError("validation.source is for the documents of validation.pairs; give these too")


@dataclass(frozen=True)
class ComparisonSettings:
    """Everything about training a model to compare documents (CoLDE, sections 3 and 4.1).

    Args:
        corpus: the documents.
        groups: what says which of them belong together.
        sections: how they are split.
        loss: what tells those that belong together from others.
        model: what is trained, and where it starts.
        training: how long and how; ``batch_size`` counts documents, also where they are trained on in pairs.
        validation: what is measured meanwhile.
        output: folder of the run; the trained model is its folder ``model``.

    Raises:
        ValueError: settings do not fit together.
    """

    corpus: LabelledCorpusSettings
    groups: GroupSettings = field(default_factory=GroupSettings)
    sections: SectionSettings = field(default_factory=SectionSettings)
    loss: ComparisonLoss = field(default_factory=ComparisonLoss)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=lambda: TrainingSettings(batch_size=50))
    validation: PairValidationSettings = field(default_factory=PairValidationSettings)
    output: str = "runs/comparison"

    def __post_init__(self) -> None:
        require_usable_output(self.output, self.corpus)
        self.model.require_own_readout()
        require_used_rates(self.model, self.training)
        groups, training = self.groups, self.training
        if self.corpus.streaming:
            raise ValueError("corpus.streaming is for pretraining: groups are made before training; set it to false")
        if self.loss.kind == "cosine" and groups.by != "pairs":
            raise ValueError(
                f"loss.kind=cosine trains on labelled pairs, and groups.by is {groups.by}; set groups.by=pairs and "
                "groups.file, or loss.kind=contrastive"
            )
        if training.batch_size < 2:
            raise ValueError(
                f"training.batch_size={training.batch_size} has no room for two documents; set it to 2 or more"
            )
        if self.loss.kind == "contrastive" and training.batch_size < 2 * groups.per_batch:
            raise ValueError(
                f"training.batch_size={training.batch_size} has no room for groups.per_batch={groups.per_batch} "
                "documents of two groups; raise the one or lower the other"
            )
        if groups.smallest == 1 and self.sections.number == 1:
            raise ValueError(
                "groups.smallest=1 leaves whole documents that belong with no other; set it to 2, or sections.number "
                "to 2 or more"
            )
        if training.patience is not None and self.validation.pairs is None:
            raise ValueError(f"training.patience={training.patience} needs an evaluation; give validation.pairs")

    @property
    def smallest_group(self) -> int:
        """Documents that a group must have."""
        return self.groups.smallest or (1 if self.sections.number > 1 else 2)

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return output_folder(self.output)
