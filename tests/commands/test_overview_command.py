"""graphdoc overview as a user runs it."""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from collections_of_topics import LICENCE, make_collection

from graphdoc.vectors.folder import Manifest

Command = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of twelve documents, the last two alike, and one file that is none."""
    folder = tmp_path / "papers"
    documents, _ = make_collection(3)
    for document in documents:
        path = folder / f"{document.id}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {document.title}\n\n{document.text}\n", encoding="utf-8")
    (folder / "bread" / "002.md").write_text((folder / "bread" / "001.md").read_text())
    (folder / "picture.bin").write_bytes(b"\0\1")
    return folder


def test_a_page_tables_and_reports(graphdoc: Command, folder: Path, model: str, tmp_path: Path) -> None:
    files = ("--html", "o.html", "--json", "o.json", "--csv", "o.csv")
    status, out, err = graphdoc("overview", folder, "--model", model, *files, "--reports", "3", "--duplicates", "1")
    assert status == 0, err
    content = json.loads((tmp_path / "o.json").read_text())
    assert content["format"] == "graphdoc.overview/1" and len(content["documents"]) == 12
    ids = [document["id"] for document in content["documents"]]
    assert content["duplicates"] == [[ids.index("bread/001"), ids.index("bread/002")]]
    with (tmp_path / "o.csv").open(encoding="utf-8") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ids
    page = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert "<h1" in page and ">papers<" in page
    assert sorted(path.name for path in (tmp_path / "o-reports").glob("[!.]*")) == [
        "0001.html",
        "0002.html",
        "0003.html",
    ]
    best = content["pairs"][0]
    report = (tmp_path / "o-reports" / "0001.html").read_text(encoding="utf-8")
    assert all(content["documents"][best[side]]["title"] in report for side in "ab")
    assert '"o-reports/0001.html"' in page
    assert Manifest.read(tmp_path / "o-vectors").documents == 12
    for line in ("12 documents, ", "near-duplicates: 2 documents in 1 set", "wrote o.html", "wrote o-reports"):
        assert line in out
    assert "picture.bin" in out


@pytest.mark.parametrize("name", ["documents.csv", "overview.html", "overview-reports/0001.html"])
def test_files_of_others_in_the_output_folder_stay(
    graphdoc: Command, folder: Path, model: str, tmp_path: Path, name: str
) -> None:
    path, command = (
        tmp_path / "site" / name,
        ("overview", folder, "--model", model, "--output", "site", "--reports", 1),
    )
    path.parent.mkdir(parents=True)
    path.write_text("of others")
    status, _, err = graphdoc(*command)
    assert status == 2 and name in err and "--overwrite" in err
    assert path.read_text() == "of others"
    assert [one for one in (tmp_path / "site").rglob("*") if one.is_file()] == [path]
    assert graphdoc(*command, "--overwrite").status == 0
    assert path.read_text() != "of others"
    # What graphdoc wrote is replaced, until somebody changes it.
    assert graphdoc(*command).status == 0
    path.write_text("changed")
    assert graphdoc(*command).status == 2
    assert path.read_text() == "changed"
    # A file that was named is replaced like any other.
    assert graphdoc("overview", folder, "--model", model, "--html", path).status == 0


def test_reports_say_once_that_documents_are_not_whole(graphdoc: Command, folder: Path, model: str) -> None:
    for path in folder.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        path.write_text(f"{text}\n## More\n\n{text[::-1]}\n\n## Licence\n\n{LICENCE}\n", encoding="utf-8")
    arguments = ("overview", folder, "--model", model, "--html", "o.html", "--reports", "6")
    for vectors, documents in (((), 12), (("--vectors", "o-vectors"), None)):
        status, _, err = graphdoc(*arguments, *vectors)
        assert status == 0
        (said,) = [line for line in err.splitlines() if "encoded whole" in line]
        assert documents is None or f"{documents} of {documents}" in said


def test_a_second_run_goes_on_from_the_folder(graphdoc: Command, folder: Path, model: str, tmp_path: Path) -> None:
    arguments = ("overview", folder, "--model", model, "--html", "o.html")
    assert graphdoc(*arguments).status == 0
    first, before = (tmp_path / "o.html").read_bytes(), (tmp_path / "o-vectors" / "shard-00000.parquet").stat()
    assert graphdoc(*arguments).status == 0
    assert (tmp_path / "o.html").read_bytes() == first
    assert (tmp_path / "o-vectors" / "shard-00000.parquet").stat() == before
    # Vectors that are the overview's own are made anew when the documents have changed.
    (folder / "tides" / "000.md").write_text("# Another\n\nText.\n")
    status, _, err = graphdoc(*arguments)
    assert status == 0 and "o-vectors" in err and "changed" in err
    assert "Another" in (tmp_path / "o.html").read_text()
    (folder / "new.md").write_text("# Newest\n\nText.\n")
    status, _, err = graphdoc(*arguments)
    assert status == 0 and "changed" in err and "Newest" in (tmp_path / "o.html").read_text()
    (folder / "new.md").unlink()
    status, _, err = graphdoc(*arguments)
    assert status == 0 and "changed" in err and "Newest" not in (tmp_path / "o.html").read_text()


def test_vectors_that_were_asked_for_are_not_replaced_unasked(
    graphdoc: Command, refused: Command, folder: Path, model: str, tmp_path: Path
) -> None:
    arguments = ("overview", folder, "--model", model, "--html", "o.html", "--vectors", "kept")
    assert graphdoc(*arguments).status == 0
    (tmp_path / "kept" / "manifest.json").unlink()
    before = (tmp_path / "kept" / "shard-00000.parquet").read_bytes()
    (folder / "new.md").write_text("# Newest\n\nText.\n")
    assert "--overwrite" in refused(*arguments)
    assert (tmp_path / "kept" / "shard-00000.parquet").read_bytes() == before
    assert graphdoc(*arguments, "--overwrite").status == 0
    assert "Newest" in (tmp_path / "o.html").read_text()


def test_what_cannot_be_encoded_is_counted(graphdoc: Command, folder: Path, model: str) -> None:
    (folder / "nothing.txt").write_text("\u200b", encoding="utf-8")
    status, out, _ = graphdoc("overview", folder, "--model", model, "--html", "o.html", "--on-error", "skip")
    assert status == 0 and "12 documents read, 1 skipped" in out and "skipped document 'nothing'" in out


def test_vectors_of_an_earlier_overview_in_another_precision(
    graphdoc: Command, refused: Command, folder: Path, model: str
) -> None:
    arguments = ("overview", folder, "--model", model, "--html", "o.html")
    assert graphdoc(*arguments, "--dtype", "float32").status == 0
    said = refused(*arguments, "--dtype", "bfloat16")
    assert "o-vectors holds the vectors of an earlier overview" in said and "dtype was 'float32'" in said
    assert "weights" not in said and "--overwrite" in said and "--vectors" in said
    assert graphdoc(*arguments, "--dtype", "bfloat16", "--overwrite").status == 0


def test_stored_vectors_need_no_model(
    graphdoc: Command, folder: Path, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert graphdoc("encode", folder, "--model", model, "--output", "vectors").status == 0

    def fail(*_: Any) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr("graphdoc.commands.overview.load_encoder", fail)
    status, out, err = graphdoc("overview", folder, "--vectors", "vectors", "--json", "-")
    assert (status, err) == (0, "")
    assert {one["title"] for one in json.loads(out)["documents"]} >= {"About tides, part 0", "About bread, part 1"}
    (folder / "new.md").write_text("# New\n\nText.\n")
    (folder / "tides" / "000.md").unlink()
    status, out, _ = graphdoc("overview", folder, "--vectors", "vectors")
    assert status == 0
    assert "1 document without a vector in vectors: left out" in out
    assert "1 vector of documents that were not read: shown by their ids" in out
    status, out, _ = graphdoc("overview", "--vectors", "vectors", "--json", "-")
    assert status == 0 and json.loads(out)["documents"][0]["title"] == "bread/000"


def test_the_command_of_the_page_compares_two(graphdoc: Command, folder: Path, model: str, tmp_path: Path) -> None:
    """What the page says to run makes the report, for files and for rows of a corpus."""
    rows = [{"id": f"it's {n}", "body": f"Tides rise and fall {n} times."} for n in range(3)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ("c.jsonl", "papers/tides", "--model", model, "--text-column", "body", "--html", "o.html")
    assert graphdoc("overview", *arguments).status == 0
    places, options = command_in(tmp_path / "o.html")
    assert places == ["c.jsonl#it's 0", "c.jsonl#it's 1", "c.jsonl#it's 2"] + [
        f"papers/tides/00{n}.md" for n in range(3)
    ]
    assert graphdoc("compare", places[1], places[4], *options).status == 0
    assert (tmp_path / "report.html").exists()


def command_in(page: Path) -> tuple[list[str | None], list[str]]:
    """What a page calls its documents in a command, and the options that follow them."""
    text = page.read_text(encoding="utf-8")
    command = json.loads(text.partition('id="data">')[2].partition("</script>")[0])["command"]
    places = [rest and command["places"]["start"] + rest for rest in command["places"]["rest"]]
    return places, shlex.split(command["options"])


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("given", [(), ("--repeats", "keep"), ("--max-passages", "2", "--no-text-headings")])
def test_the_command_of_the_page_gives_the_score_of_the_page(
    graphdoc: Command, folder: Path, model: str, tmp_path: Path, given: tuple[str, ...], stored: bool
) -> None:
    for path in list(folder.rglob("*.md")):
        text = f"{path.read_text(encoding='utf-8')}\n\nCHANGES\n\nNone since {path.name}.\n\nLICENCE\n\n{LICENCE}\n"
        path.with_suffix(".txt").write_text(text, encoding="utf-8")
        path.unlink()
    settings = ("--model", model, "--dtype", "float32", "--repeats", "leave-out", *given)
    if stored:
        assert graphdoc("encode", folder, *settings, "--output", "v").status == 0
        settings = ("--model", model, "--vectors", "v", *given[2:])
    assert graphdoc("overview", folder, *settings, "--html", "o.html", "--json", "o.json").status == 0
    places, options = command_in(tmp_path / "o.html")
    content = json.loads((tmp_path / "o.json").read_text())
    assert "keep" in given or content["repeats"]["passages"]
    for pair in content["pairs"][:3]:
        a, b = places[pair["a"]], places[pair["b"]]
        assert graphdoc("compare", a, b, *options, "--json", "c.json").status == 0
        assert json.loads((tmp_path / "c.json").read_text())["document"] == pytest.approx(pair["score"], abs=2e-5)


def test_the_command_of_a_page_names_a_folder_that_begins_as_options_do(
    graphdoc: Command, folder: Path, model: str, tmp_path: Path
) -> None:
    for path in list(folder.rglob("*.md")):
        path.write_text(f"{path.read_text(encoding='utf-8')}\n\n# Licence\n\n{LICENCE}\n", encoding="utf-8")
    assert graphdoc("overview", folder, "--model", model, "--html=-o.html").status == 0
    places, options = command_in(tmp_path / "-o.html")
    assert "--repeats-of=-o-vectors" in options
    assert graphdoc("compare", places[0], places[1], *options).status == 0


def test_reports_are_made_by_the_model_of_the_vectors(
    graphdoc: Command, refused: Command, folder: Path, model: str
) -> None:
    assert graphdoc("encode", folder, "--model", model, "--max-passages", "2", "--output", "v").status == 0
    arguments = ("overview", folder, "--vectors", "v", "--model", model, "--html", "o.html", "--reports", "1")
    assert "max_passages=2" in refused(*arguments)
    assert graphdoc(*arguments, "--max-passages", "2").status == 0


def test_that_repeats_are_kept_is_said(graphdoc: Command, folder: Path, model: str, tmp_path: Path) -> None:
    arguments = ("overview", folder, "--model", model, "--html", "o.html")
    status, out, _ = graphdoc(*arguments, "--repeats", "keep")
    assert status == 0 and "left out as repeated: nothing" in out
    assert "--repeats keep" in (tmp_path / "o.html").read_text(encoding="utf-8")


def test_refusals(refused: Command, folder: Path, model: str, tmp_path: Path) -> None:
    def line(*arguments: str | Path) -> str:
        return refused("overview", *arguments, "--model", model).removeprefix("graphdoc overview: ")

    (tmp_path / "empty").mkdir()
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.md").write_text("# One\n\nAlone.\n")
    assert "there is nothing to look at" in line()
    assert "empty" in line("empty")
    assert "an overview needs 2 documents at least, and there is 1" in line("one")
    assert "all of which is read" in line(folder, "--html", folder / "o.html")
    inside = line(folder, "--html", folder / "o.page")
    assert "all of which is read" in inside and inside.endswith("--vectors")
    assert "all of which is read" in line(folder, "--vectors", folder / "vectors")
    assert "--reports 3 needs --html" in line(folder, "--reports", "3")
    assert "'2' is not a cosine" in line(folder, "--duplicates", "2")


def test_a_folder_of_two(graphdoc: Command, folder: Path, model: str, tmp_path: Path) -> None:
    for number in (0, 1):
        (folder / "tides" / f"00{number}.md").rename(tmp_path / f"{number}.md")
    status, out, _ = graphdoc("overview", "0.md", "1.md", "--model", model, "--html", "o.html")
    assert status == 0 and "2 documents, 0 groups" in out
    assert "No groups" in (tmp_path / "o.html").read_text()


def test_vectors_of_passages_are_refused(graphdoc: Command, refused: Command, folder: Path, model: str) -> None:
    assert graphdoc("encode", folder, "--model", model, "--output", "p", "--level", "passage").status == 0
    assert "holds vectors of passage level" in refused("overview", folder, "--vectors", "p")
