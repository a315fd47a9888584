"""Every command once, on the documents that the package has as examples."""

from __future__ import annotations

import csv
import json
import logging
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from corpus_examples import write_rows
from typed import Command, Encoders, Log, Patch

from graphdoc import Document, DocumentEncoder, read_documents
from graphdoc.commands import compare
from graphdoc.commands.output import Table, Terminal, names
from graphdoc.commands.sources import noting_languages
from graphdoc.runtime import progress
from graphdoc.similarity.background import UNKNOWN_WORDS
from graphdoc.vectors.folder import read_vectors


@pytest.fixture
def run(graphdoc: Command, model: str) -> Command:
    """Runs a command with the tiny model, expects that it succeeds, and gives what it printed."""

    def succeed(*arguments: str | Path) -> str:
        status, out, err = graphdoc(*arguments, "--model", model)
        assert status == 0, err
        return str(out)

    return succeed


def content(path: str) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_compare(run: Command, examples: Path, model: str) -> None:
    a, b = examples / "koji.md", examples / "storm-surge-barriers.html"
    files = ("--json", "c.json", "--csv", "c.csv", "--html", "c.html", "--plot", "c.png")
    out = run("compare", a, b, "--level", "sentence", "--subtopics", "vectors", *files, "--dtype", "float32")
    encoder = DocumentEncoder.from_pretrained(model, device="cpu", dtype="float32")
    expected = encoder.compare(*read_documents(a), *read_documents(b))
    assert content("c.json")["document"] == pytest.approx(expected.document, abs=1e-6)
    assert f"{expected.document:.3f}" in out and "subtopics" in out and "closest sentences, with" in out
    assert len(rows("c.csv")) > expected.passages.size
    assert all(Path(f"c.{suffix}").stat().st_size > 1000 for suffix in ("html", "png"))


def test_compare_one_and_many(run: Command, examples: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(compare, "MOST_DRAWN", 2)
    monkeypatch.setattr(compare, "SHOWN_PAIRS", 2)
    out = run("compare", examples / "koji.md")
    assert "the same document" in out and "graphdoc fit" not in out
    Path("three").mkdir()
    for name in ("koji.md", "vinegar.md", "storm-surge-barriers.html"):
        shutil.copy(examples / name, Path("three", name))
    files = ("--json", "all.json", "--csv", "all.csv", "--html", "all.html", "--plot", "all.png")
    out = run("compare", "three", *files, "--reports", "2", "--level", "all")
    assert "graphdoc fit" in out and "graphdoc fit" in Path("all-reports/0001.html").read_text(encoding="utf-8")
    assert len(content("all.json")["documents"]) == 3 and Path("all.png").stat().st_size and len(rows("all.csv"))
    assert sorted(path.name for path in Path("all-reports").glob("[!.]*")) == ["0001.html", "0002.html"]
    assert "all-reports/0001.html" in Path("all.html").read_text(encoding="utf-8")


def test_pairs_of_unknown_words_have_no_share(graphdoc: Command, tmp_path: Path) -> None:
    court = [
        f"The High Court convicted the appellant of {crime}. The appeal is dismissed." for crime in ("murder", "theft")
    ]
    for number, text in enumerate(("Blorp snarf.", "Quux wibble.", *["Rice is steamed."] * 2, *court)):
        (tmp_path / f"{number}.txt").write_text(text, encoding="utf-8")
    words = graphdoc("compare", "*.txt", "--model", "mini", "--json", "m.json", "--html", "m.html").out.split()
    found = [str(pair["share_of"]).rpartition(" of ")[2] for pair in content("m.json")["pairs"]]
    assert words.count("?") == found.count("None") == 9
    assert (found.count("court cases"), found.count("mixed texts")) == (1, 5)
    assert '<td class="right">?</td>' in Path("m.html").read_text("utf-8") and f"?: {UNKNOWN_WORDS}" in " ".join(words)
    for first, genre in ((2, "mixed texts"), (4, "court cases")):
        out = graphdoc("compare", f"{first}.txt", f"{first + 1}.txt", "--model", "mini", "--html", "m.html").out
        assert all(f"of unrelated pairs of {genre}" in text for text in (out, Path("m.html").read_text("utf-8")))


def test_encode(run: Command, examples: Path, model: str) -> None:
    assert "11 documents" in run("encode", examples, "--json", "v.json", "--dtype", "float32")
    run("encode", examples, "--output", "vectors", "--shard-size", "4", "--include", "title", "--dtype", "float32")
    ids, vectors = read_vectors("vectors")
    assert content("v.json")["ids"] == list(ids)
    encoder = DocumentEncoder.from_pretrained(model, device="cpu", dtype="float32")
    assert abs(vectors - encoder.encode(list(read_documents(examples)))).max() < 1e-5


def test_overview(run: Command, examples: Path) -> None:
    out = run("overview", examples, "--html", "o.html", "--json", "o.json", "--csv", "o.csv")
    assert "11 documents" in out and len(content("o.json")["documents"]) == len(rows("o.csv")) == 11
    run("encode", examples, "--output", "v", "--max-passages", "1000")
    run("overview", examples, "--vectors", "v", "--json", "again.json")
    same = write_rows(Path("same.jsonl"), [{"id": id, "text": "The same text."} for id in "ab"])
    # Where all are as near, none is farthest.
    assert "farthest" in out and "farthest" not in run("overview", same)
    many = write_rows(Path("many.jsonl"), [{"id": str(n), "text": f"Wall {n} and tide {n % 7}."} for n in range(50)])
    assert "fitted cosine: " in run("overview", many) and "fitted" not in out
    assert content("again.json")["pairs"] == content("o.json")["pairs"]


def test_index_search_and_mine(run: Command, graphdoc: Command, examples: Path) -> None:
    pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
    assert "added 11 documents" in run("index", examples, "--output", "my.index", "--sentences", "section")
    # The limit is that of the index, not that of the model, which is 30.
    again = run("index", examples, "--output", "my.index", "--json", "i.json")
    assert "unchanged 11" in again and content("i.json")["index"]["model"]["max_passages"] == 1000
    assert graphdoc("index", examples, "--output", "my.index", "--max-passages", "5").status == 2
    assert "deleted: 1 document" in run("index", "--output", "my.index", "--delete", "koji", "--describe")
    files = ("--json", "h.json", "--csv", "h.csv", "--html", "h.html")
    run("search", "my.index", "what keeps the sea out of a city", "--top-k", "3", "--weight", "0.5", *files)
    assert len(content("h.json")["hits"]) == 3
    out = run(
        "search", "my.index", "--document", "vinegar", "--by", "sentences", "--where", "-1 = -1 AND id != 'vinegar'"
    )
    assert "paragraph" in out and "[vinegar]" not in out
    Path("questions.tsv").write_text("what keeps the sea out?\tstorm-surge-barriers\n", encoding="utf-8")
    run("mine", "my.index", "--queries", "questions.tsv", "--by", "words", "--output", "negatives.jsonl")
    (line,) = Path("negatives.jsonl").read_text(encoding="utf-8").splitlines()[-1:]
    assert "storm-surge-barriers" not in json.dumps(json.loads(line).get("negatives", []))


def test_bars_know_how_many_documents_there_are(run: Command, examples: Path, monkeypatch: Patch) -> None:
    pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
    seen: dict[str, int | None] = {}
    shown = progress.tqdm

    def bar(*, total: int | None, desc: str, **options: Any) -> Any:
        seen.update({} if options["disable"] else {desc: total})
        return shown(total=total, desc=desc, **options)

    monkeypatch.setattr(progress, "tqdm", bar)
    # What takes long to count is counted for a bar that is shown.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True)))
    # Rows are known only once they were read.
    rows = write_rows(Path("rows.jsonl"), [{"id": "a", "text": "Rice."}, {"id": "b", "text": "Tea."}])
    for words, expected in (
        (("index", examples, "--output", "i"), {"Indexing": 11, "Leaving out what repeats": 0}),
        (("overview", examples), {"Reading": 11, "Encoding": 11}),
        (("encode", rows, "--output", "v"), {"Reading": None, "Encoding": 2}),
    ):
        seen.clear()
        run(*words)
        assert seen == expected


def test_search_without_an_index(run: Command, examples: Path) -> None:
    pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
    for most, is_cut in (("3", True), ("all", False)):
        options = ("--by", "words", "--top-k", "2", "--max-passages", most, "--json", f"{most}.json")
        assert "[koji]" in run("search", examples, "koji mould rice", *options)
        assert [hit["cut"] > 0 for hit in content(f"{most}.json")["hits"]] == [is_cut] * 2


def test_attention_and_graph(run: Command, graphdoc: Command, tiny_encoder: Encoders, examples: Path) -> None:
    run("attention", examples / "koji.md", "--csv", "a.csv", "--json", "a.json", "--plot", "a.png", "--head", "1")
    assert {"layer", "head", "source", "target", "edge_kind", "weight"} <= rows("a.csv")[0].keys()
    out = run("attention", examples / "koji.md", "--graph", "full", "--csv", "g.csv", "--plot", "g.png")
    assert "full graph" in out and {"source", "target", "edge_kind"} == rows("g.csv")[0].keys()
    tiny_encoder(graph_kind="window", graph_settings={"window": 3}).save_pretrained("own")
    assert "full graph" in graphdoc("attention", examples / "koji.md", "--graph", "full", "--model", "own").out


def test_fit_and_predict(run: Command, graphdoc: Command, examples: Path) -> None:
    documents = list(read_documents(examples))
    topics = [("sea" if number % 2 else "food") for number in range(len(documents))]
    write_rows(
        Path("topics.jsonl"),
        [{"name": one.id, "body": one.text, "topic": topic} for one, topic in zip(documents, topics, strict=True)]
        + [{"name": part, "body": "Kept apart.", "topic": part, "split": part} for part in ("test", "dev")],
    )
    columns = ("--column", "id=name", "--column", "text=body", "--column", "label=topic")
    out = run("fit", "topics.jsonl", *columns, "--lexical", "--classes", "--output", "mine")
    assert "2 classes of 11 documents" in out and "2 documents whose split is test" in out
    assert "mine holds a model" in graphdoc("fit", "topics.jsonl", *columns, "--output", "mine").err
    status, out, err = graphdoc(
        "predict", "topics.jsonl", *columns, "--model", "mine", "--output", "p.csv", "--json", "p.json"
    )
    assert status == 0, err
    assert {row["label"] for row in rows("p.csv")} <= {"sea", "food"} and len(content("p.json")["documents"]) == 13
    assert "speak" in graphdoc("predict", "topics.jsonl#koji", *columns, "--model", "mine").out


def test_configs_are_listed_and_prepared(graphdoc: Command) -> None:
    assert "quickstart" in graphdoc("pretrain", "--list").out
    assert "own_labels" in graphdoc("finetune", "--list").out
    assert json.loads(graphdoc("finetune", "classify", "--schema").out)["properties"]["labels"]
    assert "anyOf" in json.loads(graphdoc("finetune", "--schema").out)
    assert "batch_size: 11" in graphdoc("pretrain", "--config", "quickstart", "--print").out


GERMAN = "Die Flut steigt zweimal am Tag, und der Mond zieht das Meer zu sich heran, wie alle an der Küste wissen. " * 3
ENGLISH = "The tide rises twice a day, and the moon pulls the sea towards itself, as all on the coast know well. " * 3


def test_what_a_folder_holds_is_skipped_and_what_is_named_is_not(
    graphdoc: Command, refused: Command, tmp_path: Path, model: str
) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    files = {"a.txt": "Rice.", "b.txt": "Tea.", "empty.md": "", "n.csv": "a\n1\n2", "zero.txt": "\u200b"}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    status, out, _ = graphdoc("encode", folder, "--model", model)
    assert status == 0 and "2 documents read, 4 skipped" in out and "empty.md" in out and "zero" in out
    assert "n.csv:2 and 1 more row: " in graphdoc("compare", folder, "--model", model).out
    assert "empty.md" in refused("encode", folder / "a.txt", folder / "empty.md", "--model", model)
    assert "empty.md" in refused("encode", folder, "--model", model, "--on-error", "stop")
    assert graphdoc("encode", folder / "a.txt", folder / "empty.md", "--model", model, "--on-error", "skip").status == 0


def test_ids_are_made_and_counted(graphdoc: Command, tmp_path: Path, model: str) -> None:
    (tmp_path / "c.jsonl").write_text('{"text": "Rice."}\n{"text": "Tea."}\n')
    status, out, _ = graphdoc("encode", "c.jsonl", "--model", model)
    assert status == 0 and "2 documents had no id" in out and "--column id=" in out


def test_repeated_passages_are_left_out_or_kept(graphdoc: Command, tmp_path: Path, model: str) -> None:
    folder = tmp_path / "manuals"
    folder.mkdir()
    popup = (
        "Press the left or the right arrow to go from chapter to chapter. Press S or the slash to search in the book. "
        "Press the question mark to show this help again, and Escape to hide this help. "
    )
    for number, name in enumerate(("vectors", "strings", "maps", "loops")):
        turns = " ".join(f"Of {name}, remark {row} is that {'they ' * number}turn and turn about." for row in range(12))
        (folder / f"{number}.md").write_text(f"# {name}\n\n{turns}\n\n## Keys\n\n{popup}\n", encoding="utf-8")
    for choice, differs in (("leave-out", True), ("keep", False)):
        arguments = ("encode", folder, "--model", model, "--repeats", choice, "--dtype", "float32")
        assert graphdoc(*arguments, "--json", "v.json").status == 0
        vectors = json.loads(Path("v.json").read_text())["vectors"]
        plain = json.loads(
            graphdoc("encode", folder / "0.md", "--model", model, "--dtype", "float32", "--json", "-").out
        )
        assert (max(abs(x - y) for x, y in zip(vectors[0], plain["vectors"][0], strict=True)) > 1e-4) == differs


@pytest.mark.parametrize("most_tokens", [100_000, 10])
def test_documents_in_another_language_are_named_once(
    mini: DocumentEncoder, caplog: Log, monkeypatch: Patch, most_tokens: int
) -> None:
    # A model of many languages knows the text, and reads its words by the rules of one.
    monkeypatch.setattr("graphdoc.commands.sources._MANY_TOKENS", most_tokens)
    documents = [Document.from_text(text, id=f"{n}") for n, text in enumerate((ENGLISH, GERMAN, "Tee", GERMAN))]
    with caplog.at_level(logging.WARNING, "graphdoc"):
        assert [one.id for one in noting_languages(mini, documents)] == ["0", "1", "2", "3"]
    (record,) = caplog.records
    assert "1 (de)" in record.message and "3 (de)" in record.message and "0 (" not in record.message
    assert ("vectors" in record.message) == (most_tokens > 10)


@pytest.mark.parametrize("text", ["[bold]a[/bold]", "=1+1", "a\x1b[31mb", "\u202eabc", "a|b"])
def test_text_from_outside_steers_neither_terminal_nor_spreadsheet(text: str, capsys: Any, tmp_path: Path) -> None:
    table = Table([names("name")], [[text]])
    table.print(Terminal())
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and "\u202e" not in printed
    table.write_csv(tmp_path / "table.csv")
    assert not [line for line in (tmp_path / "table.csv").read_text().splitlines()[1:] if line.startswith("=")]
    assert len(table.markdown().splitlines()) == 3
