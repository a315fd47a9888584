"""Whether documents of a pair name each other: the words of one title in the text of the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..errors import EvaluationError
from .baselines import fitted_vectors
from .labels import ReadyDocument, plain_document

TITLES = "titles in texts"


def title_mentions(documents: Sequence[ReadyDocument], pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """How much of the title of each document of a pair stands in the text of the other.

    Papers cite papers by their titles, articles link to articles by theirs, and cases name cases: a trace of the link
    itself, which neither a vector of the whole text nor its most frequent words keep. It says little where titles are
    common words, and nothing of documents without one.

    Args:
        documents: the documents that occur in pairs, segmented or not.
        pairs: ``(pairs, 2)``, positions in ``documents``.

    Returns:
        ``(pairs,)``, the mean over both directions of the TF-IDF cosine of a title and a text; in a direction whose
        title is missing or has no words of the texts, 0.

    Raises:
        EvaluationError: no document has a title.

    >>> from graphdoc import Document
    >>> a = Document.from_text("We extend parsing with graphs.", id="a", title="Neural parsing")
    >>> b = Document.from_text("As in Neural parsing, trees are found.", id="b", title="Trees")
    >>> c = Document.from_text("Rice is steamed.", id="c", title="Steaming rice")
    >>> found = title_mentions([a, b, c], np.array([[0, 1], [0, 2]]))
    >>> bool(found[0] > 0.1), float(found[1])
    (True, 0.0)
    """
    plain = [plain_document(document) for document in documents]
    if not any(document.title for document in plain):
        raise EvaluationError(
            "no document of a pair has a title, so that none can be looked for in another text; give titles (a column "
            "title, or a title in the file), or leave titles out"
        )
    fitted = fitted_vectors([document.text for document in plain])
    if fitted is None:
        return np.zeros(len(pairs))
    vectorizer, texts = fitted
    titles = vectorizer.transform([document.title or "" for document in plain])
    a, b = pairs[:, 0], pairs[:, 1]
    found = titles[a].multiply(texts[b]).sum(axis=1) + titles[b].multiply(texts[a]).sum(axis=1)
    return np.asarray(found, np.float64).ravel() / 2
