"""What a search puts first: copies, short answers beside books, and odd queries, with the model that is shipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from typed import Folders

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section

PUMP = (
    "A heat pump moves warmth from the cold ground into the house. Its compressor uses a third of the energy that an "
    "electric heater would need for the same rooms."
)
LAMP = "The keeper of the lighthouse winds the clockwork of its lamp every {} hours and notes the weather in a log."
OTHERS = {
    "bread": "Sourdough rises overnight in a basket. The baker scores the loaf and slides it onto the hot stone.",
    "court": "The judge dismissed the appeal because the notice had been filed a week after the deadline.",
    "reef": "Corals live with algae that feed them. When the sea grows too warm, they bleach and starve.",
    "chess": "The rook behind the passed pawn decided the endgame, although white was two moves behind.",
    "violin": "The luthier thins the spruce plate until it rings at the pitch that she hears in her head.",
}


@pytest.fixture(scope="module")
def index(mini: DocumentEncoder, tmp_path_factory: Folders) -> DocumentIndex:
    filler = [f"{text} This is part {number} of the year book." for number in range(8) for text in OTHERS.values()]
    book = [Section(text, heading=f"Chapter {number}") for number, text in enumerate(filler)]
    touched = [
        Section("A heat pump stood in the yard of the school.", heading=f"Yard {number}") for number in range(3)
    ] + [Section("The hall had the lamp of a lighthouse.", heading=f"Hall {number}") for number in range(3)]
    documents = [
        *(Document.from_text(PUMP, id=f"copy-{number:02d}") for number in range(12)),
        *(Document.from_text(LAMP.format(number + 2), id=f"near-{number:02d}") for number in range(12)),
        *(Document.from_text(text, id=id) for id, text in OTHERS.items()),
        Document("year-book", book),
        Document("school-book", [*book, *touched]),
        Document.from_text("Ein Brot aus Sauerteig geht über Nacht im Korb auf.", id="brot"),
    ]
    index = DocumentIndex.create(tmp_path_factory.mktemp("orders") / "index", mini, repeats=True)
    index.update(documents)
    return index


def order(index: DocumentIndex, query: str | Document, top_k: int = 30, **settings: object) -> list[str]:
    return [hit.id for hit in index.search(query, top_k, **settings)]  # type: ignore[arg-type]


@pytest.mark.parametrize("by", ["hybrid", "words", "vectors"])
def test_copies_stand_side_by_side_before_books_that_touch_the_subject(index: DocumentIndex, by: str) -> None:
    found = index.search("how does a heat pump warm a house", 30, by=by)  # type: ignore[arg-type]
    assert [hit.id for hit in found][:12] == [f"copy-{number:02d}" for number in range(12)]
    assert len({hit.score for hit in found[:12]}) == 1 and [hit.rank for hit in found[10:13]] == [1, 1, 13]
    assert found[12].id == "school-book"
    near = order(index, "how often is the clockwork of the lamp wound", by=by)
    assert sorted(near[:12]) == [f"near-{number:02d}" for number in range(12)] and near[12] == "school-book"


def test_a_copy_as_query_finds_the_others_and_a_document_is_not_its_own_hit(index: DocumentIndex) -> None:
    found = order(index, index.document("copy-03"))
    assert found[:11] == [f"copy-{number:02d}" for number in range(12) if number != 3] and "copy-03" not in found


@pytest.mark.parametrize(
    ("query", "first"),
    [("algae", "reef"), ("Which chess piece decided the endgame?", "chess"), ("appeal dismissed", "court"),
     ("Brot", "brot"), ("Sauerteig im Korb", "brot"), ("luthier", "violin"), ("the the the luthier", "violin")],
)  # fmt: skip
def test_a_short_answer_stands_before_the_book_that_repeats_it(index: DocumentIndex, query: str, first: str) -> None:
    assert (found := order(index, query))[0] == first and "year-book" in found


def test_a_long_text_is_searched_for_as_a_document(index: DocumentIndex) -> None:
    text = " ".join([OTHERS["reef"]] * 5)
    assert order(index, text)[0] == "reef"
    assert order(index, Document.from_text(text, id="asked")) == order(index, text)


def test_no_word_of_a_query_in_the_index_leaves_vectors(index: DocumentIndex, tmp_path: Path) -> None:
    found, none = index.search("oceanography", 30), index.search("oceanography", by="words").hits
    assert not none and set(found[0].parts) == {"vectors"} and "a word of" in found.warnings[0]
    for query in ("?", "the of"):
        assert all(set(hit.parts) == {"vectors"} for hit in index.search(query, 30))


UNANSWERED = ["best pizza near me", "asdf qwer", "cheap flights to Paris", "used car prices", "prix d'autos", "熱泵"]


@pytest.mark.parametrize("query", UNANSWERED)
def test_a_query_that_nothing_answers_says_so(index: DocumentIndex, query: str) -> None:
    assert ["stands out" in warning for warning in index.search(query).warnings] == [True]


# No vector is close to a single foreign word, but a document holds it.
@pytest.mark.parametrize("query", ["how does a heat pump warm a house", "algae", "coral bleaching", "Sauerteig"])
def test_a_query_that_is_answered_has_no_note(index: DocumentIndex, query: str) -> None:
    assert not index.search(query, by="vectors" if query == "coral bleaching" else "hybrid").warnings
