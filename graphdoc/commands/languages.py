"""Documents in a language that the model does not know, named in one warning."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..runtime.wording import counted

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder

logger = logging.getLogger("graphdoc")

# A tokenizer with more tokens was made for many languages (bert-base-multilingual has 119,547, XLM-R 250,002); those
# of one language have 30,000 to 50,000.
_MANY_TOKENS = 100_000
_MOST_NAMED = 5


def noting_languages(documents: Iterable[Document], encoder: DocumentEncoder) -> Iterator[Document]:
    """Documents as they come; at the end those in a language that the model does not know are named in a warning.

    A model knows the language that its configuration names, and one whose tokenizer has more than 100,000 tokens all.

    Args:
        documents: the documents.
        encoder: the model.
    """
    own = encoder.model.config.language
    if len(encoder.tokenizer) > _MANY_TOKENS:
        yield from documents
        return
    from ..documents.language import language_of

    found, total, foreign = list[str](), 0, 0
    for document in documents:
        total += 1
        language = language_of(document.text)
        if language not in (None, own):
            foreign += 1
            if len(found) < _MOST_NAMED:
                found.append(f"{document.id} ({language})")
        yield document
    if foreign:
        more = f" and {foreign - len(found):,} more" if foreign > len(found) else ""
        logger.warning(
            "%s of %s not in the language that %s knows (%s); its vectors say little of: %s%s",
            f"{foreign:,}",
            counted(total, "document") + (" is" if foreign == 1 else " are"),
            encoder.name,
            own,
            ", ".join(found),
            more,
        )
