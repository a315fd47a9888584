"""The passages that repeat in a corpus, listed once each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..documents.document import Document
from .repeats import Repeats, shingles_of
from .segmenter import Segmenter

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

    passages: list[RepeatedPassage]
    documents: int = 0
    with_repeats: int = 0
    kept: int = 0


def list_repeats(documents: Iterable[Document], segmenter: Segmenter, repeats: Repeats) -> RepeatList:
    """List the passages that repeat; of each text one version is held.

    Args:
        documents: the corpus, in which ``repeats`` were found.
        segmenter: cuts documents into passages.
        repeats: what repeats.
    """
    cut = Segmenter(segmenter.tokenizer, segmenter.config, repeats)
    result = RepeatList([])
    group_of: dict[int, int] = {}
    for document in documents:
        result.documents += 1
        spans, keeps = cut.repeated(document)
        result.with_repeats += bool(spans)
        result.kept += keeps
        seen: set[int] = set()
        for section, start, end in spans:
            text = document.sections[section].text[start:end]
            shingles = shingles_of(text).tolist()
            votes = Counter(group_of[one] for one in shingles if one in group_of)
            group, count = votes.most_common(1)[0] if votes else (-1, 0)
            if count < _ALIKE * len(shingles):
                group = len(result.passages)
                result.passages.append(RepeatedPassage(text))
            for one in shingles:
                group_of.setdefault(one, group)
            passage = result.passages[group]
            passage.occurrences += 1
            passage.characters += end - start
            if group not in seen:
                seen.add(group)
                passage.documents += 1
                if len(passage.examples) < _EXAMPLES:
                    passage.examples.append(document.id)
    result.passages.sort(key=lambda passage: (-passage.documents, -passage.characters, passage.text))
    return result
