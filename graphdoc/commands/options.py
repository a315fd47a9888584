"""Options that several commands share, in groups, and what they say loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from ..runtime.imports import quick_imports

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder
    from ..retrieval.index import DocumentIndex

COUNT = Parameter(validator=Number(gte=1, lte=10**9))
COUNT_FROM_0 = Parameter(validator=Number(gte=0, lte=10**9))
# A weight, or another share of the whole.
WEIGHT = Parameter(validator=Number(gte=0, lte=1))
PROBABILITY = Parameter(validator=Number(gt=0, lt=1))

OUTPUT = Parameter(group=Group("Output", sort_key=7))
READING = Group("Reading", sort_key=8)
MODEL = Group("Model", sort_key=9)

Json = Annotated[str | None, OUTPUT, Parameter(help="write everything as JSON to this file (- for standard output)")]
File = Annotated[str | None, OUTPUT]
Overwrite = Annotated[bool, OUTPUT]

Device = Annotated[str | None, Parameter(help="cpu, cuda, cuda:1, mps (default: an accelerator if there is one)")]


def _check_limit(kind: Any, value: int | str | None) -> None:
    if isinstance(value, int) and value < 1:
        raise ValueError("Must be >= 1, or 'all'.")


MaxPassages = Annotated[
    int | Literal["all"] | None,
    Parameter(
        validator=_check_limit,
        help="passages encoded of one document, 'all' for every one (default: of an index or overview 1,000, else "
        "the model's, 100 for mini)",
    ),
]


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of a model and where it runs."""

    model: str | None = None
    """'mini' (default), folder or hub id of a graphdoc or sentence-transformers model; of an index its own"""
    device: Device = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the model that the options name; precision where it is not chosen by itself."""
        values = {name: getattr(self, name, None) for name in ("device", "dtype", "max_passages")}
        return {key: None if value == "all" else value for key, value in values.items() if value not in (None, "auto")}

    @property
    def most_passages(self) -> int | None:
        """Passages of a document that an index or an overview encodes."""
        from ..inference.segmenting import MOST_PASSAGES

        return cast("int | None", self.settings.get("max_passages", MOST_PASSAGES))

    def require(self) -> None:
        """Refuse a model that is missing, before the import of torch, which takes seconds."""
        if self.model is not None:
            from ..checkpoints.folders import checkpoint_folder

            checkpoint_folder(self.model, weights=False)

    def load(self, **settings: Any) -> DocumentEncoder:
        """Load the model."""
        with quick_imports():
            from ..encoder import DocumentEncoder

        return DocumentEncoder.from_pretrained(self.model or "mini", **{"dtype": "auto"} | self.settings | settings)

    def open_index(self, path: str) -> DocumentIndex:
        """Open an index with the model that is named, or with its own, which is loaded when it is needed."""
        with quick_imports():
            from ..retrieval.index import DocumentIndex

        return DocumentIndex.open(path, None if self.model is None else self.load(), **self.settings)


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class EncodingModel(ModelOptions):
    """Options of the model that encodes documents, and how it runs."""

    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        Parameter(
            help="precision of the transformer; auto takes bfloat16 where it is clearly faster on this machine, "
            "float32 gives the same numbers on every machine"
        ),
    ] = "auto"
    max_passages: MaxPassages = None


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class MeasuredModel(ModelOptions):
    """Which model is fitted or measured, in float32, whose numbers compare between machines."""

    max_passages: MaxPassages = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the model that the options name."""
        return {"dtype": "float32"} | super().settings

    def open_index(self, path: str) -> DocumentIndex:
        """Open an index, which says in which precision its model computes."""
        options: Any = {"model": self.model, "device": self.device, "max_passages": self.max_passages}
        return EncodingModel(**options).open_index(path)


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True, kw_only=True)
class MeasuredModels:
    """Which models are measured, in float32, whose numbers compare between machines."""

    model: tuple[str, ...] = ()
    """'mini' (default), folder or hub id of a graphdoc or sentence-transformers model; may be repeated"""
    device: Device = None
    max_passages: MaxPassages = None

    def require(self) -> None:
        """Refuse models that are missing, before the import of torch."""
        for _, options in self.by_name():
            options.require()

    def by_name(self) -> list[tuple[str, MeasuredModel]]:
        """The models by name, each once."""
        names = dict.fromkeys(self.model or ("mini",))
        return [(name, MeasuredModel(model=name, device=self.device, max_passages=self.max_passages)) for name in names]
