"""What a source yields before documents are made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import DocumentError
from ..document import Document


@dataclass(frozen=True, slots=True)
class Record:
    """A document, a row, or the reason why there is none, with the place it was found at.

    Args:
        place: file and line, to name in messages.
        content: what was found; an error's message does not name the place.
        default_id: id for a row that has none.
    """

    place: str
    content: Document | Mapping[str, Any] | DocumentError
    default_id: str | None = None
