"""Documents in a language that the model does not know, named in one warning."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..runtime.text import counted

if TYPE_CHECKING:
    from ..documents.document import Document
    from ..encoder import DocumentEncoder

logger = logging.getLogger("graphdoc")

# A tokenizer with more tokens was made for many languages (bert-base-multilingual has 119,547, XLM-R 250,002); those
# of one language have 30,000 to 50,000.
_MANY_TOKENS = 100_000
_MOST_NAMED, _MOST_WAITING = 5, 256


@contextmanager
def noting_languages(encoder: DocumentEncoder) -> Iterator[Callable[[Iterable[Document]], Iterable[Document]]]:
    """Gives a function that documents pass through; at the end those in a language unknown to the model are named.

    A model knows the language that its configuration names, and one whose tokenizer has more than 100,000 tokens all.
    Languages are told behind the documents, some hundreds at a time: loading what tells them takes half a second, for
    which no work shall wait.

    Args:
        encoder: the model.
    """
    # One of several processes speaks for all.
    if len(encoder.tokenizer) > _MANY_TOKENS or os.environ.get("RANK", "0") != "0":
        yield lambda documents: documents
        return
    found = _ForeignDocuments(encoder.model.config.language)
    yield found.among
    found.warn(encoder.name)


class _ForeignDocuments:
    """Documents in another language than one.

    Args:
        language: the one, a two-letter code.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._total, self._foreign, self._named = 0, 0, list[str]()
        self._waiting: list[tuple[str, str]] = []

    def among(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Documents as they come, whose language will be told."""
        from ..documents.language import sample

        for document in documents:
            self._total += 1
            part = sample(document.text)
            if part is not None:
                self._waiting.append((document.id, part))
            if len(self._waiting) == _MOST_WAITING:
                self._tell()
            yield document

    def _tell(self) -> None:
        from ..documents.language import language_of

        for id, part in self._waiting:
            language = language_of(part)
            if language not in (None, self._language):
                self._foreign += 1
                if len(self._named) < _MOST_NAMED:
                    self._named.append(f"{id} ({language})")
        self._waiting.clear()

    def warn(self, model: str) -> None:
        """Name them in a warning, if there are any.

        Args:
            model: name of the model that does not know their language.
        """
        if self._waiting:
            self._tell()
        if not self._foreign:
            return
        more = f" and {self._foreign - len(self._named):,} more" if self._foreign > len(self._named) else ""
        logger.warning(
            "%s of %s not in the language that %s knows (%s); its vectors say little of: %s%s",
            f"{self._foreign:,}",
            counted(self._total, "document") + (" is" if self._foreign == 1 else " are"),
            model,
            self._language,
            ", ".join(self._named),
            more,
        )
