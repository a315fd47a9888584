"""Options that several commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..errors import SettingsError
from ..runtime.memory import quick_imports

if TYPE_CHECKING:
    from ..encoder import DocumentEncoder

_MOST_DIGITS = 18
COLUMNS = ("text", "sections", "title", "id", "label")
# A command that measures models computes in it: its numbers shall not depend on which machine is fast in what.
MEASURED_PRECISION = "float32"
PRECISION_CHOICES = ("auto", "float32", "bfloat16", "float16")

_KINDS = "bfloat16 and float16, for hardware that computes in them"
_AUTO = (
    "auto takes bfloat16 where a matrix product in it is clearly faster on this machine, else float32; "
    f"{_KINDS}; float32 for the same numbers on every machine (default: auto)"
)
_MEASURED_IN = f"float32, in which numbers compare between machines; {_KINDS} (default: float32)"


def add_model_arguments(
    parser: argparse.ArgumentParser,
    *,
    several: bool = False,
    classifier: bool = False,
    matcher: bool = False,
    measures: bool = False,
) -> None:
    """Add the choice of a model, of several, or of one that was trained for what is asked, and of how it runs."""
    group = parser.add_argument_group("model")
    choices = "'mini' (default), a folder written by save_pretrained, or a hub id"
    if several:
        group.add_argument("--model", action="append", help=f"{choices}; may be given several times")
    elif classifier:
        group.add_argument("--model", required=True, help="folder or hub id of a model that has learned labels")
    elif matcher:
        group.add_argument(
            "--model", required=True, help="folder or hub id of a model that graphdoc finetune views trained"
        )
    else:
        group.add_argument("--model", default="mini", help=choices)
    add_device_argument(group)
    group.add_argument(
        "--dtype",
        choices=PRECISION_CHOICES[1:] if measures else PRECISION_CHOICES,
        default=MEASURED_PRECISION if measures else "auto",
        help=f"precision of the transformer: {_MEASURED_IN if measures else _AUTO}",
    )
    group.add_argument(
        "--max-passages",
        type=passage_limit,
        default=argparse.SUPPRESS,
        metavar="N",
        help="passages encoded of one document, 'all' for every one (default: the model's, 100 for mini)",
    )


def add_device_argument(parser: argparse._ActionsContainer) -> None:
    """Add the choice of a device."""
    parser.add_argument("--device", help="cpu, cuda, cuda:1, mps (default: an accelerator if there is one)")


def add_ray_argument(parser: argparse._ActionsContainer) -> None:
    """Add the choice of a Ray cluster."""
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="encode on a Ray cluster: local (made for this run), auto (running here), HOST:PORT or ray://HOST:PORT",
    )


def add_query_arguments(group: argparse._ArgumentGroup, *, required: bool = True) -> None:
    """Add which queries and judgements are read."""
    group.add_argument(
        "--data",
        metavar="FOLDER",
        required=required,
        help="queries and judgements, or a file of query, tab and document",
    )
    group.add_argument("--split", metavar="NAME", help="queries of this split alone, such as test")
    group.add_argument(
        "--only", metavar="FIELD=VALUE", action="append", default=[], help="queries that have this; may be repeated"
    )
    group.add_argument("--query-column", metavar="NAME", help="field that holds the text of a query (default: text)")
    group.add_argument(
        "--own-grade",
        type=positive,
        metavar="GRADE",
        help="documents of this grade are those that queries were made of; they are left out",
    )


def add_scoring_arguments(group: argparse._ArgumentGroup) -> None:
    """Add how documents are scored by their sentences."""
    group.add_argument(
        "--normalisation",
        choices=("none", "zscore"),
        help="compare the scores of a paragraph with those it has with all documents (default: none)",
    )
    group.add_argument(
        "--direction",
        choices=("source", "both"),
        help="look for the document in the others, as the paper does, or also for them in it (default: both)",
    )


def prepare_for_ray(options: argparse.Namespace) -> None:
    """Let the model be loaded where it is not run, if a cluster is asked for.

    Raises:
        SettingsError: a device is asked for as well, or the address is of no kind that Ray knows.
        OutputError: nothing answers there.
    """
    if options.ray is None:
        return
    if options.device is not None:
        raise SettingsError(
            f"--device {options.device} cannot be combined with --ray, whose processes take a GPU each, "
            "or CPUs where the cluster has none"
        )
    from ..runtime.ray import require_cluster

    require_cluster(options.ray)
    options.device = "cpu"


def add_reading_arguments(
    parser: argparse.ArgumentParser, *, labels: bool = True, on_error: bool = True
) -> argparse._ArgumentGroup:
    """Add how documents are read, to a group that can take more.

    Args:
        parser: the parser.
        labels: whether the command has a use for labels.
        on_error: whether it reads many documents, of which it can leave some out.
    """
    group = parser.add_argument_group("reading")
    group.add_argument("--encoding", default="utf-8", help="encoding of text files (default: utf-8)")
    group.add_argument("--no-text-headings", action="store_true", help="look for no headings in plain text files")
    for name in COLUMNS:
        group.add_argument(
            f"--{name}-column", default=name, metavar="NAME", help=f"column that holds the {name} (default: {name})"
        )
    if labels:
        group.add_argument(
            "--label-from",
            choices=("column", "folder"),
            default="column",
            help="labels are in the label column (default), or are the names of folders directly below the source",
        )
    if on_error:
        group.add_argument(
            "--on-error",
            choices=("skip_in_folders", "skip", "stop"),
            default="skip_in_folders",
            help="what cannot be read: skip, count and list it where a folder or pattern holds it and stop at what is "
            "named itself (default), skip all of it, or stop at the first",
        )
    return group


def load_encoder(options: argparse.Namespace, name: str | None = None, **settings: Any) -> DocumentEncoder:
    """Load the model that the arguments name, or another one in the way they say."""
    with quick_imports():
        from ..encoder import DocumentEncoder

    if hasattr(options, "max_passages"):
        settings["max_passages"] = options.max_passages
    model = options.model if name is None else name
    return DocumentEncoder.from_pretrained(model, device=options.device, dtype=options.dtype, **settings)


def passage_limit(value: str) -> int | None:
    """A number of passages, or None for ``all``."""
    if value == "all":
        return None
    try:
        return positive(value)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{value!r} is neither a number of at least 1 nor 'all'") from error


def positive(value: str) -> int:
    """A whole number of at least 1, within what a computer counts to."""
    return _whole(value, 1)


def whole(value: str) -> int:
    """A whole number of at least 0, within what a computer counts to."""
    return _whole(value, 0)


def weight(value: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    # Not a number is not between any two.
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number from 0 to 1")
    return number


def _whole(value: str, least: int) -> int:
    if value.isdecimal() and len(value) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{value!r} is too large; give a number of up to {_MOST_DIGITS} digits")
    if not value.isdecimal() or int(value) < least:
        raise argparse.ArgumentTypeError(f"{value!r} is not a whole number of at least {least}")
    return int(value)


def probability(value: str) -> float:
    """A number between 0 and 1."""
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number above 0 and below 1")
    return number
