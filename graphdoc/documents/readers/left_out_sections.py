"""Documents without some of their sections, such as abstracts that would make a task too easy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ..document import Document


@dataclass
class LeftOutSections:
    """Takes sections out of documents by their headings, with all that is below them.

    Args:
        headings: the headings; case and white space around them do not matter.

    Attributes:
        counts: number of sections left out by heading, in the order of ``headings``.
    """

    headings: tuple[str, ...]
    counts: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = dict.fromkeys(self.headings, 0)

    def without(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents without these sections; one that has nothing else is left without text."""
        wanted = {_plain(heading): heading for heading in self.headings}
        for document in documents:
            kept = []
            for section in document.sections:
                heading = next((h for own in (section.heading, *section.path) if (h := wanted.get(_plain(own)))), None)
                if heading is None:
                    kept.append(section)
                else:
                    self.counts[heading] += 1
            yield document if len(kept) == len(document.sections) else replace(document, sections=tuple(kept))


def _plain(heading: str) -> str:
    return " ".join(heading.split()).casefold()
