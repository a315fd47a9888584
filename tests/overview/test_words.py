from __future__ import annotations

import numpy as np
import pytest
from collections_of_topics import TOPICS, make_collection

from graphdoc.documents.document import Document
from graphdoc.overview.digests import OPENING_CHARACTERS, TERMS, Digests, date_of
from graphdoc.overview.groups import words_of_documents, words_of_groups


def test_groups_are_named_by_their_own_words() -> None:
    documents, _ = make_collection(20)
    digests = Digests()
    passed = list(digests.passing(documents))
    assert passed == documents
    _, words = digests.chosen([document.id for document in documents])
    groups = [np.arange(20 * number, 20 * number + 20) for number in range(4)]
    for found, topic in zip(words_of_groups(words, groups, 6), TOPICS.values(), strict=True):
        assert len(found) == 6
        assert set(found) <= set(topic.split()) | set(TOPICS)


def test_one_long_document_does_not_name_its_group() -> None:
    documents = [Document.from_text("harbour wall " + "zeppelin " * 500, id="long")]
    documents += [Document.from_text(f"harbour wall quay{'abcdefgh'[n]}", id=str(n)) for n in range(8)]
    digests = Digests()
    for document in documents:
        digests.add(document)
    _, words = digests.chosen([document.id for document in documents])
    (found,) = words_of_groups(words, [np.arange(9)], 3)
    assert set(found) == {"harbour", "wall"}


def test_words_of_documents_by_hand() -> None:
    texts = ["tide tide tide wave", "wave wave clock", "clock wave"]
    digests = Digests()
    for number, text in enumerate(texts):
        digests.add(Document.from_text(text, id=str(number)))
    _, words = digests.chosen(["0", "1", "2"])
    listed, places = words_of_documents(words, 2)
    idf = {word: np.log(4 / (1 + found)) + 1 for word, found in (("tide", 1), ("wave", 3), ("clock", 2))}
    for text, own in zip(texts, places, strict=True):
        counts = {word: text.split().count(word) for word in set(text.split())}
        weights = {word: (1 + np.log(count)) * idf[word] for word, count in counts.items()}
        assert [listed[place] for place in own] == sorted(weights, key=lambda word: -weights[word])[:2]


def test_what_is_kept_of_a_document() -> None:
    text = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(600))
    metadata = {"year": 1851, "kind": "letter", "tags": ("a", "b"), "abstract": "x" * 500}
    document = Document.from_text(text, id="a/b/c", title="A\u202e title " * 3, label=("x", "y"), metadata=metadata)
    digests = Digests()
    digests.add(document)
    digests.add(document)
    (kept,), words = digests.chosen(["a/b/c"])
    assert (kept.label, kept.date, kept.folder, kept.words) == ("x, y", "1851", "a/b", 600)
    assert kept.values == {"year": "1851", "kind": "letter", "tags": "a, b"}
    assert len(kept.opening) == OPENING_CHARACTERS and "\u202e" not in kept.title
    assert words.counts.shape[0] == 1 and words.counts.nnz == TERMS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2019-03-07T10:00", "2019-03-07"),
        ("in 1999.", "1999"),
        (2005, "2005"),
        ("2019-13-07", "2019"),
        ("12345", ""),
        (None, ""),
    ],
)
def test_dates(value: object, expected: str) -> None:
    assert date_of(value) == expected
