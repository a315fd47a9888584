"""The settings of training a model to compare documents."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from ..documents.readers.pair_files import Unknown
from .base import Count, FileName, Settings, known_name
from .loss_kinds import require_read
from .run import LabelledRunSettings
from .sub_documents import Temperature
from .training import TrainingSettings

GroupsBy = Literal["label", "pairs", "links"]
Joining = Literal["components", "stars"]
SplitRule = Literal["headings", "length"]
SectionPositions = Literal["natural", "shuffled"]


class KindOfLoss(NamedTuple):
    """What a loss is computed of, which decides which settings have an effect.

    Args:
        takes: all documents of ``groups``, or labelled ``pairs`` themselves.
        own: settings of the loss that it reads and not every kind does.
    """

    takes: Literal["groups", "pairs"]
    own: tuple[str, ...]


LOSS_KINDS: dict[str, KindOfLoss] = {
    "contrastive": KindOfLoss("groups", ("temperature",)),
    "cosine": KindOfLoss("pairs", ("margin",)),
}
# CoLDE, section 4.1.
PAPER_TEMPERATURE = 0.5

Best = Literal["auc", "average_precision", "f1", "accuracy"]


class GroupSettings(Settings):
    """Which documents belong together."""

    by: GroupsBy = "label"
    """label, the column corpus.columns.label; pairs, a file of two ids and 0 or 1; or links, a file of two ids, such
    as citations"""
    file: FileName | None = None
    """the file of pairs or links"""
    unknown: Unknown | None = None
    """stop at a pair with a document that is not in the corpus, or leave out such pairs and count them; null stops at
    pairs and leaves out links"""
    joining: Joining = "components"
    """how pairs make groups: connected components, or stars, a document and its partners"""
    most: Annotated[int, Field(ge=2)] | None = None
    """documents that a star has at most; null for no limit"""
    smallest: Literal[1, 2] | None = None
    """documents that a group must have; with 1, documents that are alone in their group are trained on too: their
    sections belong together; null is 1 where documents are split into sections, else 2"""

    @model_validator(mode="after")
    def _check_file(self) -> Self:
        self.require_effect(
            "file", self.by != "label", "with {here}by=label; set {here}by=pairs or links, or {here}file=null"
        )
        if self.by != "label" and self.file is None:
            raise self.refused("by", f"needs a file of {self.by}; give {{here}}file")
        self.require_effect(
            "joining", self.by != "label",
            "with {here}by=label; set {here}joining=components, or {here}by=pairs or links",
        )  # fmt: skip
        self.require_effect("unknown", self.by != "label", "with {here}by=label; set {here}unknown=null")
        self.require_effect(
            "most", self.joining == "stars",
            "with {here}joining=components; set {here}joining=stars, or {here}most=null",
        )  # fmt: skip
        return self

    @property
    def on_unknown(self) -> Unknown:
        """What becomes of pairs with a document that is not in the corpus."""
        return self.unknown or ("leave_out" if self.by == "links" else "stop")


class SectionSettings(Settings):
    """How documents are split in training (see :class:`~graphdoc.sampling.DocumentSections`)."""

    number: Annotated[int, Field(ge=1, le=1000)] = 2
    """most sections of a document; the paper's is 2, and it tries 2 to 5; 1 leaves documents whole"""
    by: SplitRule = "headings"
    """headings, or length to cut all documents into sections of equal length"""
    section_positions: SectionPositions = "natural"
    """natural, or shuffled to shuffle the sections of a document in every epoch"""
    most_tokens: Count | None = None
    """tokens of a section that are trained on, its first ones; the rest is counted; null for no limit (the paper tries
    1,000, 4,000 and 8,000, and measures on whole documents)"""

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        for name in ("by", "section_positions"):
            self.require_effect(name, self.number > 1, "with {here}number=1; set {here}number=2, or leave it out")
        return self


class ComparisonLossSettings(Settings):
    """What separates documents of one group from others."""

    kind: Annotated[str, known_name(LOSS_KINDS), Field(json_schema_extra={"enum": list(LOSS_KINDS)})] = "contrastive"
    """contrastive draws all sections of a group together; cosine trains on the labelled pairs themselves, on document
    vectors (the paper's "without contrastive loss")"""
    temperature: Temperature = PAPER_TEMPERATURE
    """what cosines are divided by, for contrastive"""
    margin: Annotated[float, Field(ge=-1, lt=1)] = 0.0
    """cosine up to which dissimilar documents are left where they are, for cosine"""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        require_read(self, self.kind, LOSS_KINDS)
        return self

    @property
    def takes_pairs(self) -> bool:
        """Whether the loss is computed of labelled pairs, and not of groups."""
        return LOSS_KINDS[self.kind].takes == "pairs"


class ValidationPairSettings(Settings):
    """Labelled pairs that a model is measured on while it is trained."""

    pairs: FileName | None = None
    """file of pairs, two ids and 0 or 1 with tabs between; null for no measuring: the last model is then the result"""
    source: list[FileName] | FileName | None = None
    """where the documents of the pairs are, if not in the corpus; those of the corpus are found in any split"""
    unknown: Unknown = "stop"
    """stop at a pair with a document that is not there, or leave out such pairs"""
    at_start: bool = True
    """also measure before the first step"""

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        self.require_effect("source", self.pairs is not None, "without {here}pairs; give these too, or leave it out")
        return self


class PairValidationSettings(ValidationPairSettings):
    """Labelled pairs that a model is measured on while it is trained, by the similarity of their documents."""

    best: Best = "auc"
    """number that decides which checkpoint is the best; f1 and accuracy are those of the threshold that is best on
    these very pairs"""


class ComparisonTrainingSettings(TrainingSettings):
    """How long and how a model is trained to compare, which takes two documents."""

    batch_size: Annotated[int, Field(ge=2, le=10**7)] = 50
    """documents of a batch, over all processes, also where they are trained on in pairs"""


class ComparisonSettings(LabelledRunSettings):
    """Everything about training a model to compare documents (CoLDE, sections 3 and 4.1).

    Train a model whose document vectors are close for documents that belong together. Documents are split
    into sections, and all sections of one group are drawn together and apart from those of others (CoLDE).

    Which documents belong together is said by a column of labels (groups.by=label), by a file of pairs
    (groups.by=pairs: two ids and 1 or 0 in a line, with tabs between) or by a file of links such as citations
    (groups.by=links: two ids in a line); groups.file names the file. With loss.kind=cosine the model is
    trained on the labelled pairs themselves.

    validation.pairs names pairs that the model is measured on while it is trained and that decide which
    checkpoint is the best. Documents whose field split is in corpus.leave_out_splits are not trained on; list
    dev and test there.

    All settings are in a YAML file; configs/finetune/ holds recipes to start from. What follows the options
    as key=value replaces what the file says. The run's folder (output) gets checkpoints, the log, the
    settings and, in its folder model, the trained model. A run that was interrupted goes on from its last
    checkpoint with --resume.
    """

    purpose: ClassVar[str] = "train a model to compare documents, on groups or pairs of them"
    examples: ClassVar[str] = """examples:
  graphdoc finetune compare --config configs/finetune/own_pairs.yaml corpus.source=letters/ groups.file=pairs.tsv
  graphdoc finetune compare --config configs/finetune/graph_compare.yaml corpus.source=papers.jsonl.gz --resume
  graphdoc finetune compare --config configs/finetune/graph_compare.yaml groups.by=pairs groups.file=pairs.tsv
  torchrun --nproc-per-node 8 finetune/compare.py --config configs/finetune/colde.yaml
"""
    next_command: ClassVar[str] = "graphdoc compare A B --model MODEL"
    evaluation_fix: ClassVar[str | None] = "give validation.pairs"

    output: FileName = "runs/comparison"
    """folder of the run; the trained model is its folder model"""
    training: ComparisonTrainingSettings = ComparisonTrainingSettings()
    """how long and how"""
    groups: GroupSettings = GroupSettings()
    """which documents belong together"""
    sections: SectionSettings = SectionSettings()
    """how documents are split"""
    loss: ComparisonLossSettings = ComparisonLossSettings()
    """what separates those that belong together from others"""
    validation: PairValidationSettings = PairValidationSettings()
    """what is measured meanwhile"""

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        groups = self.groups
        of_groups = " or ".join(name for name, kind in LOSS_KINDS.items() if kind.takes == "groups")
        if self.loss.takes_pairs and groups.by != "pairs":
            raise self.refused(
                "loss.kind", f"trains on labelled pairs, and groups.by is {groups.by}; set groups.by=pairs and "
                f"groups.file, or loss.kind={of_groups}"
            )  # fmt: skip
        for name, default in type(groups).default_values().items():
            self.require_effect(
                f"groups.{name}", not self.loss.takes_pairs or name in ("by", "file", "unknown"),
                f"with loss.kind={self.loss.kind}, which takes pairs as they are; set groups.{name}="
                f"{'null' if default is None else default}, or loss.kind={of_groups}",
            )  # fmt: skip
        if groups.smallest == 1 and self.sections.number == 1:
            raise self.refused(
                "groups.smallest", "leaves whole documents that belong with no other; set it to 2, or sections.number "
                "to 2 or more"
            )  # fmt: skip
        return self

    @property
    def is_measured(self) -> bool:
        """Whether the model is measured while the run goes on."""
        return self.validation.pairs is not None

    @property
    def smallest_group(self) -> int:
        """Documents that a group must have."""
        return self.groups.smallest or (1 if self.sections.number > 1 else 2)
