"""Queries made of the documents themselves: titles, headings and first sentences, which their documents answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..documents.document import Document
from ..errors import EvaluationError
from ..evaluation import Judgements
from ..segmentation.sentences import first_sentence
from ..settings.retrieve import MadeFrom

_TEXTS: dict[MadeFrom, Callable[[Document], list[str]]] = {
    "titles": lambda document: [document.title],
    "headings": lambda document: [section.heading for section in document.sections],
    "first_sentences": lambda document: [first_sentence(document)],
}


@dataclass
class _Text:
    """A text that may become a query, and the ids of the documents that it is of."""

    text: str
    documents: dict[str, None] = field(default_factory=dict)


def make_queries(
    documents: Iterable[Document], made_from: Sequence[MadeFrom], most_documents: int, source: str = ""
) -> tuple[Judgements, dict[str, int], dict[str, int]]:
    """Make queries of documents.

    Texts that differ in capitals or white space alone are one query, with several answers where they are of several
    documents. The vectors of documents know neither their titles nor their headings; first sentences have to be taken
    out of their text (``corpus.leave_out_first_sentence``).

    Args:
        documents: the documents.
        made_from: what queries are made of.
        most_documents: documents that a text may be of; such as ``References`` says nothing.
        source: what the documents are called in messages.

    Returns:
        The queries, how many there are of each kind, and how many were left out by reason.

    Raises:
        EvaluationError: there is none.

    >>> shore = Document.from_text("Waves break.", id="d1", title="The shore")
    >>> made, counts, left_out = make_queries([shore], ["titles"], 1)
    >>> dict(made.queries), made.qrels, counts["titles"]
    ({'titles-1': 'The shore'}, {'titles-1': {'d1': 1}}, 1)
    """
    found: dict[str, _Text] = {}
    kinds: dict[str, MadeFrom] = {}
    for document in documents:
        for kind in made_from:
            for text in map(" ".join, map(str.split, _TEXTS[kind](document))):
                if key := text.casefold():
                    kinds.setdefault(key, kind)
                    found.setdefault(key, _Text(text)).documents[document.id] = None
    counts: Counter[str] = Counter()
    shared = 0
    queries, qrels = {}, {}
    for key, one in found.items():
        if len(one.documents) > most_documents:
            shared += 1
            continue
        counts[kinds[key]] += 1
        id = f"{kinds[key]}-{counts[kinds[key]]}"
        queries[id], qrels[id] = one.text, dict.fromkeys(one.documents, 1)
    if not queries:
        raise EvaluationError(
            f"{source}: no query can be made of {', '.join(made_from)}: documents have none"
            + (f", or more than {most_documents} share them ({shared:,})" if shared else "")
            + "; make them of something else (queries.made_from), or give queries.source"
        )
    left_out = {f"texts that more than {most_documents} documents share (queries.most_documents)": shared}
    return Judgements.of(queries, qrels, source=source), dict(counts), left_out if shared else {}
