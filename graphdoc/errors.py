"""Errors that users can mend, as exceptions whose message is one clear line."""

from __future__ import annotations

import re

# What moves the cursor, changes colours or the direction of writing, or ends the line.
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069]+")


class GraphdocError(Exception):
    """A mistake in input, settings or surroundings that the user can mend.

    The message is one line that names the file or document, the value and the fix. The command line prints it and
    exits with status 2; in Python it is raised as it is. Control characters in names and values become spaces.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(_CONTROL.sub(" ", str(message)))


class DocumentError(GraphdocError):
    """A document that cannot be read, parsed or encoded."""


class ModelError(GraphdocError):
    """A checkpoint or backbone that cannot be loaded or does not fit."""


class SettingsError(GraphdocError, ValueError):
    """A setting that is unknown, of the wrong type or out of range; a ValueError as well, as in Python itself."""


class OutputError(GraphdocError):
    """An output file or folder that cannot be written or continued."""


class OtherDocumentsError(OutputError):
    """An output folder that was made of other documents."""


class MissingExtraError(GraphdocError):
    """An optional library is needed to do what the purpose says, and an extra of graphdoc installs it."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{library} is needed to {purpose}; {install_hint(extra)}")


class RetrievalError(GraphdocError):
    """An index that cannot be opened, written or searched."""


class EvaluationError(GraphdocError):
    """Labels, pairs or numbers of documents that nothing can be measured on."""


def install_hint(extra: str) -> str:
    """How an extra is installed, for messages; the package of the name graphdoc on PyPI is another project."""
    return f"install it, in the folder of the clone, with: pip install -e '.[{extra}]'"
