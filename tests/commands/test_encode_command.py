from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.inference import precision

Command = Callable[..., Any]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    rows = [{"id": f"d{number}", "text": f"Text number {number} is about clocks. It is short."} for number in range(7)]
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def vectors(corpus: Path, model: str) -> np.ndarray:
    encoder = DocumentEncoder.from_pretrained(model, device="cpu")
    texts = [json.loads(line)["text"] for line in corpus.read_text(encoding="utf-8").splitlines()]
    found: np.ndarray = encoder.encode([Document.from_text(text) for text in texts])
    return found


def test_summary(graphdoc: Command, corpus: Path, vectors: np.ndarray, model: str) -> None:
    status, out, err = graphdoc("encode", corpus, "--model", model)
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["document", "passages", "coverage", "nearest", "score"]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = unit @ unit.T - 2 * np.eye(7)
    nearest = int(scores[3].argmax())
    assert rows[4] == ["d3", "1", "100%", f"d{nearest}", f"{scores[3, nearest]:.3f}"]
    assert out.splitlines()[-1] == "7 documents, vectors of 16 numbers, model tiny"


def test_one_document_has_no_neighbour(graphdoc: Command, model: str) -> None:
    status, out, _ = graphdoc("encode", "-", "--model", model, stdin=b"Two clocks never agree.")
    assert status == 0
    assert out.splitlines()[1].split() == ["stdin", "1", "100%"]


def test_many_documents_are_not_all_listed(graphdoc: Command, tmp_path: Path, model: str) -> None:
    (tmp_path / "c.csv").write_text("id,text\n" + "".join(f"r{number},Text {number}\n" for number in range(75)))
    status, out, _ = graphdoc("encode", "c.csv", "--model", model)
    assert status == 0
    assert "... and 15 more documents" in out
    assert len(out.splitlines()) < 70


def test_json_and_csv(graphdoc: Command, corpus: Path, vectors: np.ndarray, model: str, tmp_path: Path) -> None:
    status, out, err = graphdoc("encode", corpus, "--model", model, "--json", "v.json", "--csv", "v.csv")
    assert (status, err) == (0, "")
    assert "wrote v.json\nwrote v.csv\n" in out
    content = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    assert content["ids"] == [f"d{number}" for number in range(7)]
    assert content["model"]["name"] == "tiny"
    np.testing.assert_allclose(content["vectors"], vectors, atol=1e-5)
    with (tmp_path / "v.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0][0] == "id"
    np.testing.assert_allclose(np.array([row[1:] for row in rows[1:]], float), vectors, atol=1e-5)
    status, out, _ = graphdoc("encode", corpus, "--model", model, "--normalize", "--json", "-")
    np.testing.assert_allclose(np.linalg.norm(json.loads(out)["vectors"], axis=1), 1, atol=1e-5)


def test_a_folder_of_shards(graphdoc: Command, corpus: Path, vectors: np.ndarray, model: str, tmp_path: Path) -> None:
    command = ("encode", corpus, "--model", model, "--output", "vectors", "--shard-size", "3")
    status, out, err = graphdoc(*command)
    assert (status, err) == (0, "")
    assert "7 documents" in out
    folder = tmp_path / "vectors"
    names = sorted(path.name for path in folder.iterdir())
    shards = [f"shard-0000{number}.parquet" for number in range(3)]
    # The texts are alike but for their numbers, so that something repeats, but all of every one counts.
    assert names == ["manifest.json", "repeats.safetensors", *shards]
    table = pyarrow.parquet.read_table(sorted(folder.glob("*.parquet")))
    assert table.column_names[:2] == ["id", "vector"]
    assert table["id"].to_pylist() == [f"d{number}" for number in range(7)]
    np.testing.assert_allclose(np.stack(table["vector"].to_numpy()), vectors, atol=1e-5)
    json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    status, _, err = graphdoc(*command)
    assert (status, err) == (0, "graphdoc: vectors held these vectors already: nothing was left to encode\n")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (folder / "shard-00001.parquet").unlink()
    status, _, err = graphdoc(*command)
    assert (status, err) == (0, "")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    # Where everything is kept, nothing is recorded as repeated.
    assert graphdoc(*command, "--repeats", "keep", "--overwrite").status == 0
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", *shards]


@pytest.mark.parametrize("speed", [1.0, 3.0])
def test_auto_is_the_default_and_says_what_it_chose(
    graphdoc: Command, corpus: Path, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speed: float
) -> None:
    seconds = cycle([speed, 1.0])
    monkeypatch.setattr(precision, "seconds_of", lambda product: next(seconds))
    chosen = "bfloat16" if speed > 1 else "float32"
    status, _, err = graphdoc("encode", corpus, "--model", model, "--output", "auto")
    assert (status, len(err.splitlines())) == (0, int(speed > 1))
    assert all(part in err for part in ("tiny", chosen, "3.0") if speed > 1)
    manifest = json.loads((tmp_path / "auto" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["model"]["dtype"] == chosen
    assert graphdoc("encode", corpus, "--model", model, "--output", "named", "--dtype", "float32").err == ""
    named = json.loads((tmp_path / "named" / "manifest.json").read_text(encoding="utf-8"))
    assert named["model"]["dtype"] == "float32"


def test_a_folder_of_another_run(graphdoc: Command, corpus: Path, model: str, tmp_path: Path) -> None:
    command = ("encode", corpus, "--model", model, "--output", "vectors")
    assert graphdoc(*command)[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "vectors").iterdir()}
    corpus.write_text('{"id": "new", "text": "Other words."}\n')
    status, out, err = graphdoc(*command)
    assert (status, out) == (2, "")
    assert "--overwrite" in err
    assert len(err.splitlines()) == 1
    assert {path: path.read_bytes() for path in (tmp_path / "vectors").iterdir()} == before
    assert graphdoc(*command, "--overwrite")[0] == 0
    assert pyarrow.parquet.read_table(tmp_path / "vectors" / "shard-00000.parquet")["id"].to_pylist() == ["new"]


def test_what_is_skipped_is_listed(graphdoc: Command, corpus: Path, model: str, tmp_path: Path) -> None:
    with corpus.open("a", encoding="utf-8") as file:
        file.write('not json\n{"id": "d1", "text": "twice"}\n{"id": "zero", "text": "\u200b"}\n{"id": "no text"}\n')
    (tmp_path / "note.xyz").write_text("unknown")
    status, out, _ = graphdoc("encode", tmp_path, "--model", model, "--on-error", "skip", "--json", ".v.json")
    assert status == 0
    assert json.loads((tmp_path / ".v.json").read_text())["ids"] == [f"d{number}" for number in range(7)]
    for line, reason in ((8, "invalid JSON at column 1"), (9, "the id 'd1' is taken"), (11, "row 'no text'")):
        assert f"skipped {corpus}:{line}: {reason}" in out
    assert "skipped zero: it has no text to encode" in out
    assert f"ignored {tmp_path / 'note.xyz'}: unknown type .xyz" in out


def test_what_a_folder_holds_is_skipped_by_default_and_what_is_named_is_not(
    refused: Command, graphdoc: Command, tmp_path: Path, model: str
) -> None:
    (tmp_path / "texts").mkdir()
    for name in ("a", "b"):
        (tmp_path / "texts" / f"{name}.txt").write_text(f"Two clocks of {name} never agree.")
    (tmp_path / "texts" / "broken.docx").write_bytes(b"no archive")
    (tmp_path / "texts" / "rows.jsonl").write_text('{"id": "r", "text": "A row."}\n{"id": "s"}\n')
    (tmp_path / "texts" / "unseen.txt").write_text("\u200b")
    for source in ("texts", "texts/*"):
        status, out, _ = graphdoc("encode", source, "--model", model, "--json", "v.json")
        assert status == 0
        assert json.loads((tmp_path / "v.json").read_text())["ids"] == ["a", "b", "r"]
        assert f"skipped {Path('texts') / 'broken.docx'}: " in out
        assert f"skipped {Path('texts') / 'rows.jsonl'}:2: row 's'" in out
        assert " 3 skipped\n" in out
        assert graphdoc("encode", source, "--model", model, "--output", f"v{len(source)}")[0] == 0
    assert "broken.docx" in refused("encode", "texts", "texts/broken.docx", "--model", model, "--json", "no.json")
    assert "broken.docx" in refused("encode", "texts", "--on-error", "stop", "--model", model, "--json", "no.json")
    found = graphdoc("search", "texts", "clocks", "--model", model)
    assert found.status == 0
    assert all(name in found.err for name in ("broken.docx", "rows.jsonl:2", "unseen", "3 skipped"))


@pytest.mark.parametrize(
    ("sources", "is_reported"),
    [(["texts"], True), (["texts/*.txt"], True), (["rows.jsonl"], True), (["texts/b.txt", "texts/a.txt"], True),
     (["texts/a.txt"], False)],
)  # fmt: skip
def test_how_to_go_on_without_a_document_is_reported(
    refused: Command, graphdoc: Command, tmp_path: Path, model: str, sources: list[str], is_reported: bool
) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("")
    (tmp_path / "texts" / "b.txt").write_text("Two clocks never agree.")
    (tmp_path / "rows.jsonl").write_text('{"text": ""}\n{"text": "Two clocks."}\n')
    line = refused("encode", *sources, "--model", model, "--on-error", "stop")
    assert "no text" in line
    assert line.endswith("leave it out (--on-error skip goes on without it)" if is_reported else "leave it out")
    # Commands for one document have no such option, and a comparison has nothing to go on with without one of two.
    assert "--on-error" not in refused("graph", "rows.jsonl", "--model", model)
    assert "--on-error" not in refused("compare", "texts/b.txt", "texts/a.txt", "--model", model)
    # What holds another document beside the one that cannot be read is gone on with as the message says.
    command = ("compare", "texts/b.txt", "rows.jsonl", "--model", model)
    assert refused(*command).endswith("leave it out (--on-error skip goes on without it)")
    assert graphdoc(*command, "--on-error", "skip").status == 0
    (tmp_path / "nothing").mkdir()
    assert "--on-error" not in refused("encode", "nothing", "--model", model)
    # Names that the system does not take are told like any other that is not there.
    assert "there is no such file or folder" in refused("encode", "x" * 5000, "--model", model)
    if is_reported:
        assert graphdoc("encode", *sources, "--model", model, "--on-error", "skip")[0] == 0


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("encode", ["encode", "--output", "v"]), ("predict", ["predict", "--model", "m"]), ("index", ["index"])],
)
def test_a_source_that_is_not_there_is_refused_before_a_model_is_loaded(
    refused: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, arguments: list[str]
) -> None:
    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr(importlib.import_module(f"graphdoc.commands.{module}"), "load_encoder", load)
    (tmp_path / "there.txt").write_text("Two clocks never agree.")
    for source in ("gone.txt", "gone.jsonl#a", "x" * 5000):
        line = refused(*arguments, "there.txt", source, *(["--output", "made"] if module == "index" else []))
        assert f"{source[:100]}" in line and "there is no such file or folder" in line


def test_a_folder_tells_what_it_passed_over(graphdoc: Command, tmp_path: Path, model: str) -> None:
    source = tmp_path / "papers"
    source.mkdir()
    (source / "a.csv").write_text("text\nTwo clocks never agree.\n")
    (source / "b.xyz").write_text("unknown")
    status, out, _ = graphdoc("encode", source, "--model", model, "--output", "v1")
    assert status == 0
    assert out.splitlines() == [
        "1 document, 1 vector of 16 numbers (document level), model tiny",
        "passed over: 1 file",
        f"  {source / 'b.xyz'}: unknown type .xyz",
        "1 shard and manifest.json in v1",
        "1 document had no id and got a hash of the content; name a column with --id-column",
    ]
    for name in "cdefg":
        (source / f"{name}.xyz").write_text("unknown")
    out = graphdoc("encode", source, "--model", model, "--output", "v2").out
    assert "passed over: 6 files\n" in out
    assert [f"{name}.xyz" in out for name in "bcdefg"] == [True] * 3 + [False] * 3
    assert "  ... all are listed in v2/manifest.json\n" in out


def test_documents_with_ids_need_no_word(graphdoc: Command, corpus: Path, model: str) -> None:
    assert "had no id" not in graphdoc("encode", corpus, "--model", model, "--output", "vectors").out


def test_nothing_left(refused: Command, tmp_path: Path, model: str) -> None:
    (tmp_path / "bad.jsonl").write_text("not json\n")
    message = refused("encode", "bad.jsonl", "--model", model, "--on-error", "skip", "--json", "v.json")
    assert "there are no documents in bad.jsonl; bad.jsonl:1: invalid JSON" in message


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--output", "v", "--json", "v.json"), ("--output", "--json", "--csv", "combined")),
        (("--level", "section", "--csv", "v.csv"), ("--level", "--output", "needs")),
        (("--level", "passage"), ("--level", "--output", "needs")),
        (("--output", ""), ("''", "name")),
        (("--output", "a\0b"), ("'a\\x00b'", "name")),
        (("--output", "corpus.jsonl"), ("corpus.jsonl", "is a file")),
        (
            ("--shard-size", "9" * 19),
            (f"argument --shard-size: '{'9' * 19}' is too large; give a number of up to 18",),
        ),
        (("--ray", "local"), ("--ray", "--output", "needs")),
        (("--output", "v", "--ray", "nonsense"), ("'nonsense'", "HOST:PORT")),
        (("--output", "v", "--ray", "auto", "--device", "cpu"), ("--device", "--ray")),
        (("--shard-size", "-1"), ("--shard-size", "'-1'", "at least 1")),
        (("--shard-size", "0"), ("--shard-size", "'0'", "at least 1")),
        (("--on-error", "cry"), ("--on-error", "'cry'")),
        (("-", "-"), ("standard input",)),
        (("",), ("empty",)),
        (("missing.md", "--output", "v"), ("missing.md", "no such file")),
        (("--output", "v", "--text-column", "body"), ("'body'", "'sections'", "column")),
    ],
)
def test_refusals(
    refused: Command, corpus: Path, model: str, options: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    line = refused("encode", corpus, "--model", model, *options)
    assert all(part in line for part in parts), line


def test_escapes_of_documents_do_not_reach_the_terminal(graphdoc: Command, tmp_path: Path, model: str) -> None:
    escape = "\x1b[31m\x07\u202e"
    rows = [{"id": f"{n}{escape}", "title": escape, "split": escape, "label": escape, "text": f"T {n}."} for n in "ab"]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    clustering = ("evaluate", "cluster", "--data", "c.jsonl", "--model", model)
    for arguments in (("encode", "c.jsonl", "--model", model), clustering, (*clustering, "--test-split", escape)):
        _, out, err = graphdoc(*arguments)
        assert not {"\x1b", "\x07", "\u202e"} & set(out + err), arguments


def test_titles_and_texts_beside_vectors(graphdoc: Command, refused: Command, model: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Tides\n\nThe tide came in.\n")
    command = ("encode", "a.md", "--model", model, "--level", "passage", "--output", "v")
    assert graphdoc(*command, "--columns", "text, title").status == 0
    (row,) = pyarrow.parquet.read_table(tmp_path / "v" / "shard-00000.parquet").to_pylist()
    assert (row["title"], row["text"]) == ("Tides", "The tide came in.")
    assert "'body'" in refused("encode", "a.md", "--columns", "title,body", "--output", "w")
    assert "--columns title" in refused("encode", "a.md", "--columns", "title")
