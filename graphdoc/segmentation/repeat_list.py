"""The passages that repeat in a corpus, listed once each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ..documents.document import Document
from .drafts import Plan
from .repeats import LeavesOut, Place, shingles_of
from .segmenter import SegmentationConfig
from .sentence_groups import repeated_in

_EXAMPLES = 3
# Passages of which so much is the same are listed as one.
_ALIKE = 0.5


@dataclass(slots=True)
class RepeatedPassage:
    """A passage that repeats, as the first document has it.

    Args:
        text: its text there.
        documents: documents that have it, or one that is nearly the same.
        occurrences: how often they have it.
        characters: of all occurrences.
        examples: ids of the first documents that have it.
    """

    text: str
    documents: int = 0
    occurrences: int = 0
    characters: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class RepeatList:
    """What repeats in a corpus.

    Args:
        passages: the passages, those of most documents first.
        documents: documents that were looked at.
        with_repeats: documents that have a repeated passage.
        kept: documents made of repeated passages for the most part, in which these count.
    """

    passages: list[RepeatedPassage] = field(default_factory=list)
    documents: int = 0
    with_repeats: int = 0
    kept: int = 0

    @property
    def characters(self) -> int:
        """Of all occurrences of all passages."""
        return sum(passage.characters for passage in self.passages)

    @property
    def shortened(self) -> int:
        """Documents of which a passage is left out."""
        return self.with_repeats - self.kept


class RepeatLister:
    """Lists the passages that repeat in documents that pass by; of each text one version is held.

    Args:
        repeats: what repeats in their corpus.
        config: how documents are cut into passages.
        only_left_out: list none of documents in which they count, since these are made of them for the most part.
    """

    def __init__(self, repeats: LeavesOut, config: SegmentationConfig, *, only_left_out: bool = False) -> None:
        self._repeats, self._config, self._only_left_out = repeats, config, only_left_out
        self._found = RepeatList()
        self._group_of: dict[int, int] = {}

    def add(self, document: Document) -> list[Place]:
        """Take in a document.

        Returns:
            The places of what is left out of it, section, start and end; none where all of it counts.
        """
        found, config = self._found, self._config
        found.documents += 1
        if not self._repeats:
            return []
        spans, keeps = repeated_in(Plan(document), self._repeats, config.passage_words, config.language)
        found.with_repeats += bool(spans)
        found.kept += keeps
        if keeps and self._only_left_out:
            return []
        seen: set[int] = set()
        for section, start, end in spans:
            group = self._group(document.sections[section].text[start:end])
            passage = found.passages[group]
            passage.occurrences += 1
            passage.characters += end - start
            if group not in seen:
                seen.add(group)
                passage.documents += 1
                if len(passage.examples) < _EXAMPLES:
                    passage.examples.append(document.id)
        return [] if keeps else list(spans)

    def found(self) -> RepeatList:
        """What repeats in the documents so far."""
        passages = sorted(self._found.passages, key=lambda one: (-one.documents, -one.characters, one.text))
        return replace(self._found, passages=passages)

    def _group(self, text: str) -> int:
        """The place of the passage that a text is listed as, perhaps a new one."""
        shingles = shingles_of(text).tolist()
        votes = Counter(self._group_of[one] for one in shingles if one in self._group_of)
        group, count = votes.most_common(1)[0] if votes else (-1, 0)
        if count < _ALIKE * len(shingles):
            group = len(self._found.passages)
            self._found.passages.append(RepeatedPassage(text))
        for one in shingles:
            self._group_of.setdefault(one, group)
        return group


def list_repeats(documents: Iterable[Document], repeats: LeavesOut, config: SegmentationConfig) -> RepeatList:
    """List the passages that repeat in a corpus.

    Args:
        documents: the corpus, in which ``repeats`` were found.
        repeats: what repeats.
        config: how documents are cut into passages.
    """
    lister = RepeatLister(repeats, config)
    for document in documents:
        lister.add(document)
    return lister.found()
