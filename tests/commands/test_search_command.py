"""graphdoc search: what it finds in an index, a folder and a corpus, and what it writes."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from graphdoc.evaluation.trec import read_run

pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")

Command = Callable[..., Any]
TEXTS = {
    "tides": "Tides rise twice a day. The moon pulls the sea.",
    "rice": "Steamed rice is cooled before koji is sown.",
    "marsh": "Salt marshes slow the sea.",
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A corpus of three documents with a year each."""
    path = tmp_path / "corpus.jsonl"
    rows = [
        {"id": id, "text": text, "title": f"About {id}", "year": 2000 + number}
        for number, (id, text) in enumerate(TEXTS.items())
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


@pytest.fixture
def index(graphdoc: Command, corpus: Path, model: str) -> str:
    """An index of the corpus."""
    assert graphdoc("index", corpus, "--output", "made.index", "--model", model).status == 0
    return "made.index"


def test_an_index_is_searched_by_words(graphdoc: Command, index: str) -> None:
    status, out, err = graphdoc("search", index, "steamed rice", "--by", "words")
    assert (status, err) == (0, "")
    assert "About rice [rice]" in out and "About tides" not in out
    assert "Steamed rice is cooled" in out and out.splitlines()[-1].startswith("3 documents, 3 passages, model tiny")


def test_a_corpus_is_searched_without_an_index(graphdoc: Command, corpus: Path, index: str, model: str) -> None:
    _, ours, _ = graphdoc("search", corpus, "the sea", "--model", model, "--json", "-")
    _, theirs, _ = graphdoc("search", index, "the sea", "--json", "-")
    hits = [[(hit["id"], hit["score"]) for hit in json.loads(out)["hits"]] for out in (ours, theirs)]
    assert hits[0] == hits[1] and len(hits[0]) == 3
    assert sorted(path.name for path in corpus.parent.iterdir()) == ["corpus.jsonl", "made.index"]


def test_a_document_is_asked_with(graphdoc: Command, index: str, corpus: Path) -> None:
    _, out, _ = graphdoc("search", index, "--document", f"{corpus}#tides", "--json", "-")
    found = json.loads(out)
    assert found["query"]["document"] == "tides"
    assert {hit["id"] for hit in found["hits"]} == {"rice", "marsh"}
    assert all(hit["explanation"]["vectors"] for hit in found["hits"])


def test_a_document_of_the_index_is_asked_with_by_its_id(
    graphdoc: Command, refused: Callable[..., str], index: str, corpus: Path, model: str
) -> None:
    _, by_file, _ = graphdoc("search", index, "--document", f"{corpus}#tides", "--json", "-")
    for place, beside in ((index, ()), (corpus, ("--model", model))):
        status, by_id, err = graphdoc("search", place, "--document", "tides", *beside, "--json", "-")
        assert status == 0, err
        hits = [[(hit["id"], hit["score"]) for hit in json.loads(out)["hits"]] for out in (by_file, by_id)]
        assert hits[0] == hits[1] and {id for id, _ in hits[1]} == {"rice", "marsh"}
        message = refused("search", place, "--document", "tidse", *beside)
        assert "tidse" in message and str(place) in message
    assert "did you mean tides?" in refused("search", index, "--document", "tides.txt")


@pytest.mark.parametrize("id", ["10.1641/0006(2001)051[0933:TE]2.0.CO;2", "#123", "What is it?", "*", "moon", "--x"])
def test_ids_that_look_like_something_else(
    graphdoc: Command, refused: Callable[..., str], tmp_path: Path, model: str, id: str
) -> None:
    rows = [{"id": id, "text": TEXTS["tides"]}, {"id": "rice", "text": TEXTS["rice"]}]
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    (tmp_path / "moon").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "moon" / name).write_text("Another text.")
    assert graphdoc("index", path, "--output", "made.index", "--model", model).status == 0
    for place, beside in (("made.index", ()), (path, ("--model", model))):
        status, out, err = graphdoc("search", place, f"--document={id}", "--by", "vectors", *beside, "--json", "-")
        assert status == 0, err
        assert json.loads(out)["query"]["document"] == id
        assert [hit["id"] for hit in json.loads(out)["hits"]] == ["rice"]
    message = refused("search", "made.index", f"--document={id}s")
    assert f"{id}s" in message
    # Nor is it taken for a list of nothing.
    assert "--document" in refused("search", "made.index", "--document=--")


@pytest.mark.parametrize("heading", ["", "A heading that goes on and on " * 6])
@pytest.mark.parametrize("filler", ["nothing of note, ", "海面が上下する現象、"])
def test_the_words_are_shown_beside_long_headings_and_wide_letters(
    graphdoc: Command, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch, heading: str, filler: str
) -> None:
    monkeypatch.setattr("graphdoc.commands.tables.Console", lambda **options: Console(**{**options, "width": 60}))
    (tmp_path / "a.md").write_text(f"# Sea\n\n## {heading}\n\n{filler * 4} a barrage {filler * 4}\n", encoding="utf-8")
    _, out, _ = graphdoc("search", tmp_path, "barrage", "--by", "words", "--model", model)
    (line,) = (line for line in out.splitlines() if "barrage" in line)
    assert cell_len(line) <= 60


def test_a_passage_is_shown_where_the_words_stand(
    graphdoc: Command, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphdoc.commands.search.LINE_WIDTH", 50)
    long = "nothing of note happened that day, " * 6
    (tmp_path / "long.txt").write_text(f"{long} a barrage holds the tide back, {long}")
    (tmp_path / "short.txt").write_text("A barrage holds.")
    _, out, _ = graphdoc("search", tmp_path, "tidal barrage", "--by", "words", "--model", model)
    quoted = [line.strip() for line in out.splitlines() if "barrage" in line]
    assert quoted[-1].startswith("… ") and "a barrage holds the tide back" in quoted[-1] and len(quoted[-1]) < 100
    assert "A barrage holds." in quoted


def test_all_outputs(graphdoc: Command, index: str, corpus: Path, tmp_path: Path) -> None:
    status, out, _ = graphdoc("search", index, "--document", f"{corpus}#tides", "--output", "found")
    assert status == 0
    found = tmp_path / "found"
    assert all(f"wrote found/{name}" in out for name in ("hits.html", "hits.json", "hits.csv", "hits.run"))
    ids = [hit["id"] for hit in json.loads((found / "hits.json").read_text())["hits"]]
    assert list(read_run(found / "hits.run")["tides"]) == ids
    assert [row["id"] for row in csv.DictReader((found / "hits.csv").open())] == ids
    page = (found / "hits.html").read_text()
    for rank in (1, 2):
        assert f"hits-comparisons/{rank:03d}.html" in page
        assert (found / "hits-comparisons" / f"{rank:03d}.html").is_file()


def test_filters_and_explanations(graphdoc: Command, index: str) -> None:
    _, out, _ = graphdoc("search", index, "the sea", "--where", "year >= 2002", "--explain")
    assert "marsh" in out and "tides" not in out and "sea (once" in out
    status, out, _ = graphdoc("search", index, "the sea", "--where", "year > 3000")
    assert status == 0 and "note: nothing was found where year > 3000" in out


def test_mistakes(
    refused: Callable[..., str], index: str, corpus: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--document" in refused("search", index)
    assert "--document" in refused("search", index, "a", "--document", corpus)
    assert "empty" in refused("search", index, " ")
    assert "there are year" in refused("search", index, "a", "--where", "yaer > 3")
    (corpus.parent / "plain.txt").write_text("Tides rise.")
    said = refused("search", corpus.parent / "plain.txt", "a", "--where", "yaer > 3", "--model", model)
    assert "yaer" in said and "title" in said
    # Whether there is anything is looked at before anything is loaded.
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "graphdoc.retrieval.index", None)
        assert "missing" in refused("search", "missing", "a", "--model", model)
    assert "weight" in refused("search", index, "a", "--fusion", "weighted", "--weight", "7")
    assert "passages" in refused("search", index, "a", "--passages", "-1")
    # The model of the index is loaded as the arguments say, or not at all.
    assert "max_passages" in refused("search", index, "a", "--max-passages", "7")
    assert "nowhere" in refused("search", index, "a", "--device", "nowhere")


def test_what_is_no_whole_index_is_not_read_as_documents(refused: Callable[..., str], index: str) -> None:
    half = Path("half.index")
    shutil.copytree(index, half)
    for version in (half / "documents.lance" / "_versions").iterdir():
        version.unlink()
    Path("one.md").write_text("Tides rise.")
    for words in (("search", half, "tides"), ("index", "one.md", "--output", half)):
        assert "half.index" in refused(*words)


def test_words_that_are_not_searched_for(graphdoc: Command, index: str) -> None:
    for words, warns in (("the of and", True), ("the tides", False)):
        status, out, _ = graphdoc("search", index, words, "--json", "-")
        warnings = json.loads(out)["warnings"]
        assert status == 0 and any("stop words" in one for one in warnings) == warns


def test_a_filter_is_refused_before_the_model_is_loaded(
    refused: Callable[..., str], index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr("graphdoc.retrieval.index.load_encoder", load)
    assert "yaer" in refused("search", index, "tides", "--where", "yaer > 3")


@pytest.fixture
def with_sentences(graphdoc: Command, corpus: Path, model: str) -> str:
    """An index of the corpus that keeps sentences."""
    _, out, _ = graphdoc("index", corpus, "--output", "kept.index", "--model", model, "--sentences")
    assert "encoded 4 sentences" in out
    return "kept.index"


def test_documents_are_ranked_by_sentences(
    graphdoc: Command, with_sentences: str, corpus: Path, model: str, tmp_path: Path
) -> None:
    source = f"{corpus}#tides"
    status, out, err = graphdoc("search", with_sentences, "--document", source, "--by", "sentences", "--passages", 2)
    assert (status, err) == (0, "") and "(rank)" not in out
    assert "paragraphs add" in out and "Steamed rice is cooled" in out and "The moon pulls the sea." in out
    _, ours, _ = graphdoc("search", with_sentences, "--document", source, "--by", "sentences", "--json", "-")
    found = json.loads(ours)
    for hit in found["hits"]:
        pairs = hit["alignment"]["pairs"]
        assert sum(pair["contribution"] for pair in pairs) == pytest.approx(hit["score"], abs=1e-9)
    # A corpus, and with a pool an index without sentences, give the same.
    options = ("--document", source, "--by", "sentences", "--json", "-")
    _, theirs, _ = graphdoc("search", corpus, *options, "--model", model)
    _, pooled, _ = graphdoc("search", corpus, *options, "--model", model, "--pool", 2)
    scores = [{hit["id"]: hit["score"] for hit in json.loads(out)["hits"]} for out in (ours, theirs, pooled)]
    assert scores[1] == pytest.approx(scores[0], abs=1e-4) and scores[2] == pytest.approx(scores[0], abs=1e-4)
    status, out, _ = graphdoc(
        "search",
        with_sentences,
        "--document",
        source,
        "--by",
        "flat",
        "--weight",
        ".5",
        "--output",
        "found",
        "--explain",
    )
    assert status == 0 and "words (rank)" in out and "paragraph 1" in out
    found = tmp_path / "found"
    assert (found / "hits-comparisons" / "001.html").is_file()
    assert {"source_text", "contribution", "flat_score"} <= set(next(csv.DictReader((found / "hits.csv").open())))
    # What was found is ranked again.
    _, out, _ = graphdoc(
        *("search", with_sentences, "--document", source, "--candidates", found / "hits.run", "--json", "-"),
        *("--by", "sentences", "--normalisation", "zscore", "--direction", "both"),
    )
    assert {hit["id"] for hit in json.loads(out)["hits"]} == {"rice", "marsh"}


def test_a_document_whose_metadata_have_another_type_is_skipped_where_a_folder_is_searched(
    graphdoc: Command, refused: Command, model: str, tmp_path: Path
) -> None:
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    row = {"id": "bees", "text": "Bees keep the brood warm in winter.", "year": 1999}
    (mixed / "a.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (mixed / "tea.md").write_text("---\nyear: 2010\n---\n# Tea\n\nTea is picked in spring.\n", encoding="utf-8")
    status, out, err = graphdoc("search", mixed, "winter", "--model", model, "--json", "-")
    assert status == 0 and [hit["id"] for hit in json.loads(out)["hits"]] == ["bees"]
    assert "tea" in err and "year" in err and "1 document read, 1 skipped" in err
    status, out, _ = graphdoc("index", mixed, "--output", "mixed.index", "--model", model)
    assert status == 0 and "1 document read, 1 skipped" in out
    assert "year" in refused("search", mixed, "winter", "--model", model, "--on-error", "stop")


def test_mistakes_of_rankings_by_sentences(
    graphdoc: Command, refused: Callable[..., str], index: str, with_sentences: str, corpus: Path, tmp_path: Path
) -> None:
    source = ("--document", f"{corpus}#tides")
    assert "--document" in refused("search", with_sentences, "tides", "--by", "sentences")
    assert "--pool" in refused("search", index, *source, "--by", "sentences")
    assert "fusion=" in refused("search", with_sentences, *source, "--by", "flat", "--fusion", "weighted")
    assert "pool=3" in refused("search", with_sentences, *source, "--pool", "3")
    assert "weight=2" in refused("search", with_sentences, *source, "--by", "flat", "--weight", "2")
    assert "passages" in refused("search", with_sentences, *source, "--by", "flat", "--passages", "-1")
    run = tmp_path / "some.run"
    run.write_text("q Q0 nobody 1 2.0 x\n")
    by_run = (*source, "--by", "sentences", "--candidates", run)
    assert "nobody" in refused("search", with_sentences, *by_run)
    run.write_text("q Q0 nobody 1 2.0 x\nq Q0 rice 2 1.0 x\n")
    _, out, _ = graphdoc("search", with_sentences, *by_run)
    assert "About rice" in out and "1 of 2 candidates" in out
    run.write_text("q Q0 rice 1 2.0 x\np Q0 rice 2 1.0 x\n")
    assert "2 queries" in refused("search", with_sentences, *by_run)
    assert "candidates" in refused("search", with_sentences, *source, "--candidates", run)
    (tmp_path / "empty.md").write_text("# Only a heading\n")
    assert "text" in refused("search", with_sentences, "--document", "empty.md", "--by", "sentences")
    assert "without sentences" in refused("index", corpus, "--output", index, "--sentences")
    assert "blank_line" in refused(
        "index", corpus, "--output", with_sentences, "--sentences", "--paragraph", "blank_line"
    )
    assert "--sentences" in refused("index", corpus, "--output", with_sentences, "--paragraph", "section")
    _, out, _ = graphdoc("index", "--output", with_sentences, "--describe")
    assert "those of a section belong together" in out


def test_outputs_do_not_become_documents(
    graphdoc: Command, refused: Callable[..., str], model: str, tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for id, text in TEXTS.items():
        (folder / f"{id}.md").write_text(text)
    asked = ("--document", "texts/tides.md", "--model", model)
    for option, place in (("--html", "texts/hits.html"), ("--output", "texts"), ("--csv", "texts/deep/hits.csv")):
        assert "lies in texts" in refused("search", "texts", *asked, option, place)
    # The reports of hits lie in a folder beside the page.
    (tmp_path / "hits-comparisons").symlink_to("texts")
    assert "lies in texts" in refused("search", "texts", *asked, "--html", "hits.html")
    status, out, _ = graphdoc("search", "texts", *asked, "--html", "found/hits.html", "--run", "texts/hits.run")
    assert status == 0 and "wrote found/hits-comparisons" in out
    assert json.loads(graphdoc("search", "texts", *asked, "--json", "-").out)["index"]["documents"] == len(TEXTS)


def test_nothing_is_written_before_a_failure(
    graphdoc: Command, refused: Callable[..., str], model: str, tmp_path: Path
) -> None:
    rows = [{"id": f"{id}\nb", "text": text} for id, text in TEXTS.items()]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    message = refused("search", "lines.jsonl", "the sea", "--model", model, "--output", "found")
    assert "b' cannot stand in a file of TREC" in message


def test_a_run_is_named_by_the_document(graphdoc: Command, with_sentences: str, corpus: Path, tmp_path: Path) -> None:
    by = ("--by", "sentences")
    asked = ("search", with_sentences, "--document", f"{corpus}#tides", *by)
    _, out, _ = graphdoc(*asked, "--run", "tides.run")
    assert list(read_run(tmp_path / "tides.run")) == ["tides"] and "note:" not in out
    _, out, _ = graphdoc(*asked, "--candidates", "tides.run")
    assert "note:" not in out
    # The only query of a run stands for any document, and it is said.
    _, out, _ = graphdoc("search", with_sentences, "--document", f"{corpus}#rice", *by, "--candidates", "tides.run")
    assert "note: candidates are those of 'tides', the only query of tides.run; 'rice' is not in it" in out


def test_one_ranking_has_one_score_and_paragraphs_have_texts(
    graphdoc: Command, with_sentences: str, corpus: Path
) -> None:
    asked = ("search", with_sentences, "--document", f"{corpus}#tides")
    for by in ("sentences", "document", "words"):
        _, out, _ = graphdoc(*asked, "--by", by)
        assert "(rank)" not in out
    _, out, _ = graphdoc(*asked, "--by", "paragraphs")
    assert TEXTS["rice"] in out and "Tides rise twice a day." in out
