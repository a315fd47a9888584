"""graphdoc compare with a folder, a corpus, or many documents."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collections_of_topics import make_collection
from matplotlib.image import imread

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder

Command = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of eight documents, a file that is none, and one without text."""
    folder = tmp_path / "papers"
    for document in make_collection(2)[0]:
        path = folder / f"{document.id}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {document.title}\n\n{document.text}\n", encoding="utf-8")
    (folder / "empty.md").write_text("")
    (folder / "picture.bin").write_bytes(b"\0\1")
    return folder


def test_a_folder_as_page_matrix_and_reports(graphdoc: Command, folder: Path, model: str, tmp_path: Path) -> None:
    files = ("--html", "m.html", "--json", "m.json", "--csv", "m.csv", "--plot", "m.png", "--figure", "levels.png")
    status, out, err = graphdoc("compare", folder, "--model", model, *files, "--reports", "2")
    assert status == 0, err
    content = json.loads((tmp_path / "m.json").read_text())
    ids = [document["id"] for document in content["documents"]]
    assert len(ids) == 8 and content["format"] == "graphdoc.comparisons/1"
    encoder = DocumentEncoder.from_pretrained(model, device="cpu")
    documents = [Document.from_file(folder / f"{id}.md") for id in ids]
    expected = encoder.similarity(*[encoder.encode(documents)] * 2)
    np.testing.assert_allclose(content["scores"], expected, atol=2e-5)
    scores = [expected[pair["a"], pair["b"]] for pair in content["pairs"]]
    assert len(scores) == 28 and scores == pytest.approx(sorted(scores, reverse=True), abs=2e-5)
    with (tmp_path / "m.csv").open(encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert head == ["id", *ids] and [row[0] for row in rows] == ids
    np.testing.assert_allclose([[float(cell) for cell in row[1:]] for row in rows], expected, atol=2e-5)
    assert min(imread(tmp_path / "m.png").shape[:2]) > 400
    assert "levels.png shows the first 5 documents; 3 more fit in no such picture" in out
    page = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert page.count('href="m-reports/0001.html"') == 3  # twice in the table, once in the list
    first = content["pairs"][0]
    report = (tmp_path / "m-reports" / "0001.html").read_text(encoding="utf-8")
    assert all(content["documents"][first[side]]["title"] in report for side in "ab")
    assert "skipped" in out and "empty.md" in out and "picture.bin" in out
    assert "the closest of 28 pairs" in out


def test_what_cannot_be_read(
    graphdoc: Command, refused: Callable[..., str], folder: Path, model: str, tmp_path: Path
) -> None:
    (folder / "broken.docx").write_bytes(b"PK\3\4 and no more")
    named = (folder / "broken.docx", folder / "tides" / "000.md", folder / "tides" / "001.md")
    # In a folder it is skipped and counted; what is named itself stops, and the message says how to go on.
    status, out, _ = graphdoc("compare", folder, "--model", model)
    assert status == 0 and "broken.docx" in out and "8 documents read, 2 skipped" in out
    assert "broken.docx" in refused("compare", folder, "--model", model, "--on-error", "stop")
    line = refused("compare", *named, "--model", model)
    assert "broken.docx" in line and "--on-error skip" in line
    status, out, _ = graphdoc("compare", *named, "--model", model, "--on-error", "skip")
    assert status == 0 and "2 documents read, 1 skipped" in out
    (tmp_path / "c.jsonl").write_text('{"id": "a", "text": "Rice."}\n{"id"\n{"id": "b", "text": "Tides."}\n')
    assert "c.jsonl:2" in refused("compare", "c.jsonl", "--model", model)
    assert graphdoc("compare", "c.jsonl", "--model", model, "--on-error", "skip").status == 0
    # Two documents, the second alone among files that are none; and one that is none.
    pair = (named[1], folder / "one")
    (folder / "one").mkdir()
    for path in (named[0], named[2]):
        path.rename(folder / "one" / path.name)
    status, out, _ = graphdoc("compare", *pair, "--model", model)
    assert status == 0 and "document similarity" in out and "2 documents read, 1 skipped" in out
    broken = folder / "one" / "broken.docx"
    for choice in ((), ("--on-error", "skip")):
        line = refused("compare", named[1], broken, "--model", model, *choice)
        assert line.startswith(f"graphdoc compare: {broken}: ")


def test_output_folder(graphdoc: Command, folder: Path, model: str, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    status, out, _ = graphdoc("compare", folder / "tides", folder / "vinegar", "--model", model)
    assert status == 0 and "wrote" not in out and set(tmp_path.iterdir()) == before
    assert graphdoc("compare", folder, "--model", model, "--output", "out", "--reports", "1").status == 0
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == [
        *("comparison-reports", "comparison.html", "comparison.json", "scores.csv", "scores.png")
    ]


def test_a_corpus_on_standard_output(graphdoc: Command, model: str, tmp_path: Path) -> None:
    rows = [{"id": f"d{n}", "text": text} for n, text in enumerate(("Rice.", "Rice.", "Tides rise at night."))]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, out, _ = graphdoc("compare", "c.jsonl", "--model", model, "--json", "-")
    content = json.loads(out)
    assert status == 0 and content["pairs"][0] == {"a": 0, "b": 1, "score": pytest.approx(1, abs=1e-6)}


def test_many_documents_have_no_table_and_no_names(graphdoc: Command, model: str, tmp_path: Path) -> None:
    rows = [{"id": f"d{n}", "text": f"Rice {n}. Tides {n * n}."} for n in range(70)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, out, _ = graphdoc("compare", "c.jsonl", "--model", model, "--html", "m.html", "--plot", "m.png")
    left = re.search(r"^\.\.\. and (\d+) more documents?$", out, re.MULTILINE)
    # The first twenty are listed, and of the others those of the table.
    assert status == 0 and left is not None and 10 <= int(left[1]) <= 50
    page = (tmp_path / "m.html").read_text()
    assert "The table is left out" in page and "The closest 200 of 2,415 pairs" in page
    assert min(imread(tmp_path / "m.png").shape[:2]) > 1_000


def test_refusals(refused: Command, folder: Path, model: str, tmp_path: Path) -> None:
    def line(*arguments: str | Path) -> str:
        return refused("compare", *arguments, "--model", model).removeprefix("graphdoc compare: ")

    (tmp_path / "none").mkdir()
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.md").write_text("# One\n\nAlone.\n")
    assert "none" in line("none")
    assert "--sentences is for two documents" in line(folder, "--sentences")
    assert "--reports 2 needs --html" in line(folder, "--reports", "2")
    assert "--reports 2 is for more documents" in line("one/a.md", "one/a.md", "--reports", "2")


def test_every_document_of_the_table_is_named(graphdoc: Command, model: str, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    for number in range(24):
        text = "Tides rise." if number >= 22 else f"Number {number} is about {chr(97 + number) * 9} alone."
        (folder / f"{number:02}.txt").write_text(text)
    status, out, err = graphdoc("compare", folder, "--model", model)
    assert status == 0, err
    head, _, table = out.partition(", model")
    pairs = re.findall(r"^D(\d+) D(\d+) ", table, re.MULTILINE)
    named = {int(number) for number in re.findall(r"^D(\d+) ", head, re.MULTILINE)}
    assert pairs[0] == ("23", "24")
    assert named == {*range(1, 21), *(int(number) for pair in pairs for number in pair)}
