from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder

Command = Callable[..., Any]


@pytest.fixture(autouse=True)
def _shared_mini(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line use the encoder that is loaded already."""
    if "mini" in request.fixturenames:
        mini = request.getfixturevalue("mini")
        monkeypatch.setattr(DocumentEncoder, "from_pretrained", lambda name, **_: {"mini": mini}[name])


def test_summary(graphdoc: Command, two: tuple[Path, Path], model: str) -> None:
    status, out, err = graphdoc("compare", *two, "--model", model)
    assert (status, err) == (0, "")
    comparison = DocumentEncoder.from_pretrained(model, device="cpu").compare(*map(Document.from_file, two))
    lines = out.splitlines()
    assert lines[:2] == ["A Rice and mould [a]", "B Vinegar & air [b]"]
    assert f"document similarity {comparison.document:.3f} (cosine, model tiny)" in lines
    rows = [line.split() for line in lines]
    best = int(comparison.sections[1].argmax())
    assert [
        "Steaming",
        ["Opening", "Casks"][best],
        f"{comparison.sections[1, best]:.3f}",
        f"{comparison.section_contributions[1].sum():+.3f}",
    ] in rows
    assert ["all", "sections", f"{comparison.document:+.3f}"] in rows
    # Nested sections are set in.
    assert any(line.startswith("  By night ") for line in lines)
    assert lines[-2:] == [
        f"A: 3 passages, {comparison.a.segmented.coverage.tokens} tokens",
        f"B: 2 passages, {comparison.b.segmented.coverage.tokens} tokens",
    ]
    assert len(lines) < 30


def test_summary_of_examples_with_mini(graphdoc: Command, mini: DocumentEncoder, examples: Path) -> None:
    status, out, err = graphdoc(
        "compare", examples / "storm-surge-barriers.html", examples / "machines-that-measured.md", "--top", "2"
    )
    assert (status, err) == (0, "")
    assert "The brass ancestors of the tide table Adding up the Moon with pulleys" in " ".join(out.split())
    strongest = out[out.index("strongest passages") :].splitlines()
    assert strongest[2].startswith("  A The brass ancestors of the tide table: ")
    assert len([line for line in strongest if line.startswith("  A ")]) == 2
    assert max(map(len, out.splitlines())) <= 120


def test_headings_without_text_stand_above_what_is_below_them(graphdoc: Command, tmp_path: Path, model: str) -> None:
    parts = ["# Koji", "## A", "### A1", "Rice steams.", "### A2", "It grows.", "## B", "## C", "### C1", "Warm."]
    (tmp_path / "koji.md").write_text("\n\n".join(parts), encoding="utf-8")
    (tmp_path / "one.txt").write_text("Vinegar is sour.", encoding="utf-8")
    _, out, _ = graphdoc("compare", tmp_path / "koji.md", tmp_path / "one.txt", "--model", model)
    lines = out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("section of A"))
    rows = [line[:6].rstrip() for line in lines[start + 1 : start + 6]]
    # B has nothing below it, and is in no comparison.
    assert rows == ["A", "  A1", "  A2", "C", "  C1"]
    assert [lines[start + row].split() for row in (1, 4)] == [["A"], ["C"]]


def test_within_one_document(graphdoc: Command, two: tuple[Path, Path], model: str) -> None:
    status, out, _ = graphdoc("compare", two[0], "--model", model)
    assert status == 0
    assert "B the same document" in out
    assert "\nparts of one document with each other (cosine, model tiny)\n" in out
    assert "document similarity" not in out
    for line in out.splitlines():
        if line.strip().startswith("Steaming"):
            assert line.split()[1] != "Steaming"


def test_sentences(graphdoc: Command, two: tuple[Path, Path], model: str) -> None:
    status, out, _ = graphdoc("compare", *two, "--model", model, "--sentences", "--top", "2")
    assert status == 0
    block = out[out.index("\nstrongest sentences\n") :].splitlines()[2:8]
    comparison = DocumentEncoder.from_pretrained(model, device="cpu").compare(
        *map(Document.from_file, two), sentences=True
    )
    for number, match in enumerate(comparison.matches("sentence", 2)):
        assert block[3 * number] == f"{match.score:.3f}"
        for offset, letter, encoded, row in ((1, "A", comparison.a, match.a), (2, "B", comparison.b, match.b)):
            span = (encoded.sentences or ())[row]
            name = encoded.segmented.document.section_name(span.section)
            assert block[3 * number + offset] == f"  {letter} {name}: {encoded.segmented.text(span)}"
    assert "strongest sentences" not in graphdoc("compare", *two, "--model", model).out


def test_columns_of_other_names(refused: Command, tmp_path: Path, model: str) -> None:
    (tmp_path / "c.csv").write_text("number,body\n1,Some words here.\n2,More words.\n")
    command = ("compare", "c.csv#1", "--model", model)
    message = "c.csv: its rows have no column 'id', only number, body; name it with --id-column"
    assert refused(*command).endswith(f"{message}, the text's with --text-column")
    assert refused(*command, "--text-column", "body").endswith("only number, body; name it with --id-column")
    assert "c.csv:2: row '1': it has neither column 'text' nor" in refused(*command, "--id-column", "number")
    assert "c.csv:2: it has neither column 'text' nor" in refused("compare", "c.csv", "--model", model)


def test_one_section(graphdoc: Command, tmp_path: Path, model: str) -> None:
    (tmp_path / "one.txt").write_text("Only one sentence.")
    status, out, _ = graphdoc("compare", "one.txt", "--model", model)
    assert status == 0
    assert "one section only: there is nothing to compare it with" in out


def test_every_output(graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path) -> None:
    status, out, err = graphdoc("compare", *two, "--model", model, "--output", "out")
    assert (status, err) == (0, "")
    written = ["comparison.json", "passages.csv", "report.html", "sections.png"]
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == written
    for name in written:
        assert f"wrote out/{name}" in out
    content = json.loads((tmp_path / "out" / "comparison.json").read_text(encoding="utf-8"))
    assert {"document", "sections", "passages", "a", "b", "coverage", "model"} <= set(content)
    assert f"document similarity {content['document']:.3f}" in out
    assert np.array(content["sections"]).shape == (3, 2)
    assert [section["heading"] for section in content["a"]["sections"]] == ["", "Steaming", "By night"]
    assert content["a"]["sections"][2]["path"] == ["Steaming", "By night"]
    passages = content["a"]["passages"]
    assert passages[1]["text"] == "The grains must stay whole. They are spread on a table in a warm room."
    assert (passages[1]["start"], passages[1]["end"]) == (0, len(passages[1]["text"]))
    assert content["sentences"] is None
    with (tmp_path / "out" / "passages.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 6
    assert "Rice and mould" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "sections.png").read_bytes().startswith(b"\x89PNG")


def test_outputs_one_by_one(graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path) -> None:
    status, _, err = graphdoc(
        *("compare", *two, "--model", model, "--level", "sentence", "--csv", "new/pairs.csv", "--plot", "p.svg"),
        *("--html", "r.html", "--json", "c.json"),
    )
    assert (status, err) == (0, "")
    with (tmp_path / "new" / "pairs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["text_a"] == "Rice is polished, soaked and steamed."
    assert len(rows) == 4 * 3
    content = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert np.array(content["sentences"]).shape == (4, 3)
    assert (tmp_path / "p.svg").exists()
    assert (tmp_path / "r.html").exists()


def test_json_to_standard_output(graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path) -> None:
    status, out, err = graphdoc("compare", *two, "--model", model, "--json", "-", "--csv", "c.csv")
    assert (status, err) == (0, "")
    assert json.loads(out)["a"]["id"] == "a"
    assert (tmp_path / "c.csv").exists()


def test_sources(graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path) -> None:
    rows = [{"id": "P 1", "text": "Two clocks never agree."}, {"id": "P#2", "text": "The tide came over the wall."}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "table.csv").write_text("name,body\nfirst,Some words here.\n")
    (tmp_path / "old.txt").write_bytes("Grüße aus Köln".encode("latin-1"))

    def ids(*arguments: str | Path, stdin: bytes = b"") -> list[str]:
        status, out, err = graphdoc("compare", *arguments, "--model", model, "--json", "-", stdin=stdin)
        assert (status, err) == (0, "")
        content = json.loads(out)
        return [content["a"]["id"], content["b"]["id"]]

    assert ids("corpus.jsonl#P 1", "corpus.jsonl#P#2") == ["P 1", "P#2"]
    assert ids("-", two[0], stdin=b"Some text from a pipe.") == ["stdin", "a"]
    assert ids(two[0], "-", stdin=b'{"id": "piped", "text": "A row from a pipe."}') == ["a", "piped"]
    assert ids("table.csv", "--text-column", "body", "--id-column", "name") == ["first", "first"]
    assert ids("old.txt", "--encoding", "latin-1") == ["old", "old"]


def test_what_is_left_out_is_reported(graphdoc: Command, tmp_path: Path, model: str) -> None:
    (tmp_path / "long.txt").write_text(
        " ".join(f"Sentence {number} is a part of a long text." for number in range(400))
    )
    status, out, err = graphdoc("compare", "long.txt", "--model", model)
    assert status == 0
    assert "document 'long' was not encoded whole" in err
    assert len(err.splitlines()) == 1
    assert "of the text was encoded (" in " ".join(out.split())
    assert "--max-passages all" in " ".join(out.split())
    status, out, err = graphdoc("compare", "long.txt", "--model", model, "--max-passages", "all")
    assert (status, err) == (0, "")
    assert "of the text was encoded" not in out
    status, out, err = graphdoc("compare", "long.txt", "--model", model, "--max-passages", "2", "--json", "-")
    assert json.loads(out)["coverage"]["a"]["encoded_passages"] == 2


def test_an_untrained_model_is_reported(
    graphdoc: Command, two: tuple[Path, Path], tiny_encoder: Callable[..., DocumentEncoder], tmp_path: Path
) -> None:
    tiny_encoder("bert").save_pretrained(tmp_path / "untrained")
    status, _, err = graphdoc("compare", *two, "--model", tmp_path / "untrained", "--dtype", "bfloat16")
    assert status == 0
    assert err == (
        "graphdoc: untrained was not trained to compare documents: its scores mean little; use mini, or train it\n"
    )


def test_a_document_of_many_sections(graphdoc: Command, tmp_path: Path, model: str) -> None:
    (tmp_path / "many.md").write_text(
        "".join(f"# Part {number}\n\nText of part {number}.\n\n" for number in range(90))
    )
    status, out, _ = graphdoc("compare", "many.md", "--model", model, "--max-passages", "all")
    assert status == 0
    assert "... and 30 more sections; --json writes all" in out
    assert len(out.splitlines()) < 90


@pytest.mark.parametrize("command", ["compare", "graph", "attention"])
def test_text_cannot_steer_the_terminal(graphdoc: Command, tmp_path: Path, model: str, command: str) -> None:
    (tmp_path / "evil [red]id.md").write_text(
        "# [bold]Title[/bold] \x1b[31mred\x1b[0m \x07\n\n## [link=http://x]H[/link] \u202etxet\u2028x\n\n"
        "Text [/] [bold]b \x1b]0;owned\x07 \x9b1m and :smile: here.\n\n## [/broken]\n\nMore text.\n",
        encoding="utf-8",
    )
    status, out, err = graphdoc(command, "evil [red]id.md", "--model", model)
    assert (status, err) == (0, "")
    assert all(character.isprintable() or character == "\n" for character in out)
    for shown in ("[bold]Title[/bold]", "[link=http://x]H[/link]", "[/broken]"):
        assert shown in out
    if command != "graph":
        assert "[/] [bold]b" in out
        assert ":smile:" in out


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "parts"),
        [
            (("--plot", "p.gif"), ("p.gif", ".svg")),
            (("--plot", "p"), (".svg",)),
            (("--json", "."), ("is a folder",)),
            (("--html", "a.md/r.html"), ("a.md", "not a folder")),
            (("--output", "a.md"), ("a.md", "not a folder")),
            (("--json", ""), ("''", "name")),
            (("--csv", "a\0b"), ("'a\\x00b'", "name")),
            (("--output", ""), ("''", "name")),
            (("--output", "a\0b"), ("'a\\x00b'", "name")),
            (("--json", "x", "--html", "./x"), ("two outputs",)),
            (("--model", "no-such-model"), ("'no-such-model'", "model")),
            (("--model", "./nowhere"), ("./nowhere", "model folder")),
            (("--device", "gpu"), ("'gpu'", "device", "cuda")),
            (("--encoding", "klingon"), ("'klingon'", "encoding")),
            (("--top", "0"), ("--top", "'0'", "at least 1")),
            (("--max-passages", "-1"), ("'-1'", "'all'", "at least 1")),
            (("--dtype", "int4"), ("--dtype", "'int4'")),
            (("--level", "word"), ("--level", "'word'")),
            (("--jsn", "x"), ("--jsn", "--json")),
            (("--html",), ("--html",)),
            (("c.md",), ("c.md", "no such file")),
        ],
    )
    def test_options(
        self, refused: Command, two: tuple[Path, Path], options: tuple[str, ...], parts: tuple[str, ...]
    ) -> None:
        line = refused("compare", *two, *options)
        assert all(part in line for part in parts), line

    def test_documents_that_cannot_be_told_apart(self, refused: Command, model: str) -> None:
        message = refused("compare", "-", "-", "--model", model, "--json", "o.json", stdin=b"text")
        assert "standard input can be read only once; name a file for the other document" in message

    def test_a_device_that_torch_does_not_know(self, refused: Command, two: tuple[Path, Path], model: str) -> None:
        message = refused("compare", *two, "--model", model, "--device", "tpu")
        assert all(part in message for part in ("'tpu'", "cpu", "leave it out")), message


@pytest.mark.parametrize(("choice", "by"), [((), "vectors"), (("words",), "words")])
def test_subtopics(
    graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path, choice: tuple[str, ...], by: str
) -> None:
    output = tmp_path / "comparison.json"
    arguments = ("compare", *two, "--model", model, "--json", output, "--cluster-size", "2", "--receptive-field", "4")
    status, out, err = graphdoc(*arguments, "--subtopics", *choice)
    assert (status, err) == (0, "")
    found = json.loads(output.read_text(encoding="utf-8"))["subtopics"]
    assert (found["by"], found["cluster_size"], len(found["a"])) == (by, 2, 4)
    holders = [row["holder"] for row in found["rows"]]
    numbers = [holders.count(holder) for holder in ("both", "a", "b")]
    shared = "1 subtopic" if numbers[0] == 1 else f"{numbers[0]} subtopics"
    assert f"{shared} of both documents, {numbers[1]} only A has, {numbers[2]} only B" in out
    for row in found["rows"]:
        assert ", ".join(row["words"]) in out
    if found["beyond"][0]:
        assert f"A: {found['beyond'][0]} sentence" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cluster-size", "4"), ["--cluster-size", "--subtopics"]),
        (("--receptive-field", "4"), ["--receptive-field", "--subtopics"]),
        (("--subtopics", "topics"), ["topics", "words"]),
        (("--subtopics", "words", "--cluster-size", "0"), ["--cluster-size", "0"]),
    ],
)
def test_sizes_without_subtopics_are_refused(
    refused: Command, two: tuple[Path, Path], model: str, options: tuple[str, ...], words: list[str]
) -> None:
    message = refused("compare", *two, "--model", model, *options)
    assert all(word in message for word in words), message
