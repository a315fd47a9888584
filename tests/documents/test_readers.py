from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from typed import Patch

from graphdoc.documents.document import Document
from graphdoc.documents.parsing import formats
from graphdoc.documents.parsing.formats import numbered_lines
from graphdoc.documents.parsing.rows import Columns
from graphdoc.documents.readers import ReadingReport, Skipped, read_documents
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError, GraphdocError


def ids(sources: Any, **settings: Any) -> list[str]:
    return [document.id for document in read_documents(sources, **settings)]


def error(sources: Any, **settings: Any) -> str:
    with pytest.raises(DocumentError) as caught:
        list(read_documents(sources, **settings))
    message = str(caught.value)
    assert "\n" not in message
    return message


def skipped(sources: Any, **settings: Any) -> tuple[list[str], list[Skipped]]:
    report = ReadingReport()
    found = ids(sources, on_error="skip", report=report, **settings)
    assert report.documents == len(found)
    return found, report.skipped


def json_lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


ROWS = [{"id": f"d{number}", "text": f"Text {number}."} for number in range(3)]
# A time in the file would give the tests of two processes different names.
CUT_LINES = gzip.compress(json_lines(ROWS).encode(), mtime=0)[:-6]


def stored(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "Words."), ("a.md.gz", "# T\n\nWords."), ("a.HTM", "<p>Words."), ("a.rst.txt", "T\n=\n\nWords."),
        ("a.text", "Words."), ("a.rst.txt", ":py:class:`~a.b.Words`."),
        ("a.xhtml", '<?xml version="1.0"?><html><body><p>Words.</p></body></html>'),
        ("a.xml.gz", "<article><body><p>Words.</p></body></article>"),
        ("a.tei", "<TEI><text><body><p>Words.</p></body></text></TEI>"),
    ],
)  # fmt: skip
def test_files_of_one_document(tmp_path: Path, name: str, content: str) -> None:
    (document,) = read_documents(stored(tmp_path / name, content))
    assert (document.id, document.text) == ("a.rst" if "rst" in name else "a", "Words.")
    assert Document.from_file(str(tmp_path / name)) == document


@pytest.mark.parametrize("name", ["c.ndjson", "c.jsonl.gz", "c.json", "c.tsv", "c.csv.gz", "c.parquet"])
def test_files_of_rows(tmp_path: Path, name: str) -> None:
    path, sign = tmp_path / name, "\t" if "tsv" in name else ","
    if name.endswith("parquet"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    elif "sv" in name:
        stored(path, "\r\n".join([f"id{sign}text", *(f"{row['id']}{sign}{row['text']}" for row in ROWS)]))
    else:
        stored(path, json.dumps(ROWS, indent=1) if name == "c.json" else f"\ufeff{json_lines(ROWS)}")
    documents = list(read_documents(path))
    assert [(document.id, document.text) for document in documents] == [(row["id"], row["text"]) for row in ROWS]


def test_table_cells_may_hold_lines_quotes_and_sections(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    long = "word " * 100_000
    path.write_text(
        '\ufeff_id,sections,text,label\na,"[{""heading"": ""A"", ""text"": ""x\\ny""}]",,\n\n'
        'b,,"two\n""lines"", and",3\n'
        f"c,,{long},\n",
        encoding="utf-8",
    )
    first, second, third = read_documents(path)
    assert first == Document("a", (Section("x\ny", "A", 1, ("A",)),))
    assert second == Document("b", (Section('two\n"lines", and'),), label="3") and third.words == 100_000


def test_json_lists_and_objects(tmp_path: Path) -> None:
    rows = [{"id": str(number), "text": 'wörd, ["{' * 40_000} for number in range(12)]
    listed = " ,\n ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path = stored(tmp_path / "c.json", f"\ufeff [ {listed}]\n")
    assert [document.text for document in read_documents(path)] == [row["text"] for row in rows]
    # A single object takes its id from the file.
    assert ids(stored(path, '{"text": "Words."}')) == ["c"]


def test_rows_documents_and_paths_can_be_mixed(tmp_path: Path) -> None:
    row, document = {"id": "r", "text": "R."}, Document.from_text("D.", id="d")
    sources = [row, stored(tmp_path / "a.txt", "A."), document, [{"id": "s", "text": "S."}]]
    assert ids(sources) == ids(iter(sources)) == ["r", "a", "d", "s"]
    assert (ids(row), ids(document)) == (["r"], ["d"])


def test_data_sets_and_tables(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = [{"key": "a", "body": "A.", "label": 1}, {"key": "b", "body": "B.", "label": 0}]
    data_set = datasets.Dataset.from_list(rows)
    columns = Columns(id="key", text="body")
    documents = list(read_documents(data_set, columns=columns))
    assert documents == [Document("a", (Section("A."),), label=1), Document("b", (Section("B."),), label=0)]
    assert list(read_documents(data_set.to_iterable_dataset(), columns=columns)) == documents
    assert list(read_documents(data_set.to_pandas(), columns=columns)) == documents
    assert "choose one of its splits (train)" in error(datasets.DatasetDict({"train": data_set}))
    classes = datasets.ClassLabel(names=["sport", "news"])
    for kind, labels, named in (
        (classes, [1, 0, -1], ["news", "sport", None]),
        (datasets.List(classes), [[1], [1, 0], []], [("news",), ("news", "sport"), ()]),
    ):
        table = datasets.Dataset.from_dict({"text": ["A.", "B.", "C."], "label": labels}).cast_column("label", kind)
        table.to_parquet(tmp_path / "table.parquet")
        for source in (table, table.to_iterable_dataset(), str(tmp_path / "table.parquet")):
            assert [document.label for document in read_documents(source)] == named


def make_folder(root: Path) -> None:
    shown = ("b.md", "a.txt", "sub/a.txt", "sub/deeper/c.html", "x.7z", "sub/y.png")
    for name in (*shown, "sub/.hidden/d.txt", ".e.txt"):
        stored(root / name, f"Text of {name}.")


def test_folders_are_read_whole_and_in_order(tmp_path: Path) -> None:
    make_folder(tmp_path)
    report = ReadingReport(locations={})
    assert ids(tmp_path, report=report) == ["a", "b", "sub/a", "sub/deeper/c"] and report.documents == 4
    places = {"a": "a.txt", "b": "b.md", "sub/a": "sub/a.txt", "sub/deeper/c": "sub/deeper/c.html"}
    assert report.locations == {id: str(tmp_path / name) for id, name in places.items()}
    ignored = [("sub/y.png", "unknown type .png"), ("x.7z", "unknown type .7z")]
    assert report.ignored == [Skipped(str(tmp_path / name), reason) for name, reason in ignored]


def test_patterns(tmp_path: Path) -> None:
    make_folder(tmp_path)
    patterns = {"*.txt": ["a"], "**/*.txt": ["a", "sub/a"], "sub/*": ["a", "deeper/c"]}
    patterns["**/[cd].html"] = ["sub/deeper/c"]
    patterns |= {"s?b/**": ["sub/a", "sub/deeper/c"], "*": ["a", "b", "sub/a", "sub/deeper/c"]}
    for pattern, expected in patterns.items():
        assert ids(str(tmp_path / pattern)) == expected


def test_links_are_followed_once(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    make_folder(root)
    stored(outside / "o.txt", "Outside.")
    links = {"a_link": outside, "loop": root, "self": root / "self", "to_file.txt": outside / "o.txt"}
    for name, target in (links | {"z.txt": stored(tmp_path / "z.txt", "Beside.")}).items():
        (root / name).symlink_to(target)
    (outside / "back").symlink_to(root)
    os.mkfifo(root / "pipe.txt")
    report = ReadingReport()
    assert sorted(ids(root, report=report)) == ["a", "a_link/o", "b", "sub/a", "sub/deeper/c", "z"]
    assert {Path(one.source).name for one in report.ignored} >= {"loop", "back", "to_file.txt", "self", "pipe.txt"}
    assert sorted(ids(str(root / "**" / "*.txt"))) == ["a", "a_link/o", "sub/a", "z"]
    assert sorted(ids(str(root / "*.txt"))) == ["a", "to_file", "z"]


def test_standard_input(monkeypatch: Patch) -> None:
    for content, expected in (
        (b"Plain text.\n\nMore.", [("stdin", "Plain text.\n\nMore.")]),
        (b'\xef\xbb\xbf \n{"id": "a", "text": "A."}\n{"id": "b", "text": "B."}\n', [("a", "A."), ("b", "B.")]),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert [(document.id, document.text) for document in read_documents("-")] == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b" \n")))
    assert error("-").startswith("standard input: ")


def test_one_document_of_a_corpus(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    rows = [*ROWS, {"text": "No id."}, {"id": "e#1", "text": ""}]
    path.write_text(json_lines(rows) + "{broken", encoding="utf-8")
    assert ids(f"{path}#d1") == ["d1"]
    assert next(read_documents(f"{path}#{Document.from_text('No id.').id}")).text == "No id."
    assert "'e#1'" in error(f"{path}#e#1")
    assert error(f"{path}#x").startswith(f"{path}:6: ")
    path.write_text(json_lines(ROWS), encoding="utf-8")
    assert "'d9'" in error(f"{path}#d9")
    assert [document.id for document in read_documents([f"{path}#d2", f"{path}#d0"])] == ["d2", "d0"]
    # A file may have a number sign in its name.
    for name, content in (("c#.jsonl", json_lines(ROWS)), ("c.jsonl#d1.txt", "A.")):
        stored(tmp_path / name, content)
    assert ids(tmp_path / "c.jsonl#d1.txt") == ["c.jsonl#d1"]
    assert ids(f"{tmp_path}/c#.jsonl#d1") == ["d1"]
    stored(tmp_path / "a.md", "Text.")
    assert "a.md#x" in error(f"{tmp_path}/a.md#x")


BAD_LINES = (
    b'{"id": "a", "text": "A."}\n{broken\n{"id": "c", "text": "caf\xe9"}\n["list"]\n\n{"id": "e", "body": "E."}\n'
    b'{"id": "f", "text": " \\n "}\n{"id": "a", "text": "Again."}\n' + b"[" * 100_001 + b'\n{"id": "h", "text": "H."}\n'
)


def test_folders_are_read_without_what_is_broken_in_them_and_named_files_are_not(tmp_path: Path) -> None:
    inner = {"a.txt": "A.", "b.pdf": "no PDF", "c.jsonl": BAD_LINES}
    for name, content in {**{f"inner/{name}": own for name, own in inner.items()}, "empty.txt": " "}.items():
        stored(tmp_path / name, content)
    lenient: dict[str, Any] = {"on_error": "skip_in_folders"}
    report = ReadingReport()
    rows = [{"id": "row", "text": "A row."}]
    with pytest.raises(DocumentError, match="the id 'a' is taken"):
        ids([tmp_path / "inner"], **lenient)
    (tmp_path / "inner" / "c.jsonl").write_text("x\n")
    assert ids([rows, tmp_path / "inner", str(tmp_path / "inner" / "[a]*")], **lenient, unique_ids=False,
               report=report) == ["row", "a", "a"]  # fmt: skip
    broken = [str(tmp_path / "inner" / "b.pdf"), f"{tmp_path / 'inner' / 'c.jsonl'}:1"]
    assert [entry.source for entry in report.skipped] == broken
    named = tmp_path / "empty.txt"
    assert error([tmp_path / "inner", named], **lenient).startswith(f"{named}: ")
    assert "gone" in error([tmp_path / "inner", tmp_path / "gone"], **lenient)
    assert "row 1" in error([[{"id": "x"}], tmp_path / "inner"], **lenient)
    (tmp_path / "nothing").mkdir()
    assert "nothing" in error(tmp_path / "nothing", **lenient)


ZEROS, TEXT = gzip.compress(bytes(2**26), mtime=0), gzip.compress(b"text" * 100, mtime=0)
A = '{"id": "a", "text": "A."}'


@pytest.mark.parametrize(
    ("name", "content", "read", "broken"),
    [
        ("a.jsonl", BAD_LINES, ["a", "h"], {":2": "column 2", ":3": "0xe9 at offset 58", ":4": "list", ":6": "body",
                                            ":7": "'f'", ":8": "'a'", ":9": "JSON"}),
        ("a.jsonl", b"\n", [], {"": ""}), ("a.jsonl", json_lines(ROWS).encode("utf-16"), [], {"": "UTF-16"}),
        ("a.jsonl", b'{"text": "x", "text": "y"}\n{"id": "a", "text": "x", "m": {"k": 1, "k": 2}}', [],
         {":1": "'text'", ":2": "'k'"}),
        ("a.csv", b'id,text\na,"A\nA"\nb\nc,caf\xe9\nd,"x"y\ne,E\nf,"open\ng,G\n', ["a", "e"],
         {":4": "1 cells", ":5": "0xe9 at offset 23", ":6": "", ":8": ""}),
        ("a.csv", b"id,text,id\n", [], {"": "'id'"}), ("a.csv", b"id,body\na,A\n", [], {":2": "id, body"}),
        ("a.json", f'[{A},\n{{"id": ]', [], {"": "line 2"}), ("a.json", f'[{A}\n{{"id": "b"}}]', [], {"": "line 2"}),
        ("a.json", f"{A}\n{A}", [], {"": ".jsonl"}), ("a.json", f"[{A}, {'[' * 200_000}", [], {"": "JSON"}),
        ("a.json", '[{"sections": [{"text": "x", "text": "y"}]}]', [], {"": "'text'"}), ("a.json", "", [], {"": ""}),
        ("a.md", " \n\n", [], {"": ""}), ("a.xml", "<article/>", [], {"": ""}), ("a.xml", "<foo/>", [], {"": "<foo>"}),
        ("a.7z", "text", [], {"": ".7z"}), ("noname", "text", [], {"": "suffix"}),
        ("a.docx.gz", "text", [], {"": ".docx.gz"}), ("a.txt", b"caf\xe9", [], {"": "0xe9 at offset 3"}),
        ("a.txt.gz", ZEROS, [], {"": "33,554,432"}), ("a.jsonl.gz", ZEROS, [], {"": "33,554,432"}),
        ("a.txt.gz", TEXT[:-12], [], {"": "gzip"}), ("a.jsonl.gz", CUT_LINES, [], {"": "gzip"}),
        ("a.jsonl.gz", "plain", [], {"": "gzip"}), ("a.parquet", "plain", [], {"": "Parquet"}),
        *((f"a.{kind}", "none", [], {"": kind.upper()}) for kind in ("pdf", "docx", "odt", "pptx", "epub", "eml")),
        *((f"a.{kind}", "", [], {"": ""}) for kind in ("pdf", "docx", "eml")),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_and_can_be_skipped(
    tmp_path: Path, name: str, content: str | bytes, read: list[str], broken: dict[str, str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found, reasons = skipped([path, {"id": "good", "text": "Good."}])
    assert found[-1] == "good" and [id for id in found[:-1] if id in read] == read
    assert [entry.source for entry in reasons] == [f"{path}{place}" for place in broken]
    for entry, value in zip(reasons, broken.values(), strict=True):
        assert value in entry.reason
    assert error(path) == f"{reasons[0].source}: {reasons[0].reason}"


@pytest.mark.parametrize("name", ["a.pdf", "a.json", "a.parquet", "a.txt.gz"])
def test_pipes_and_devices_are_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert name in error(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    assert name in error(tmp_path / name)


def test_damage_to_a_group_of_rows_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    # Values that Python cannot hold are no crash.
    offsets, text = pyarrow.array([0, 2], pyarrow.int32()), pyarrow.py_buffer(b"\xff\xfe")
    broken = pyarrow.StringArray.from_buffers(1, offsets.buffers()[1], text)
    for columns in ({"text": broken}, {"text": ["A."], "date": pyarrow.array([2**60], pyarrow.timestamp("us"))}):
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        assert error(path).startswith(f"{path}: rows 1 to 1: ")
    rows = [{"id": f"d{number}", "text": os.urandom(200).hex()} for number in range(30)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=5, use_dictionary=False)
    content = bytearray(path.read_bytes())
    start = pyarrow.parquet.ParquetFile(path).metadata.row_group(2).column(1).data_page_offset
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(bytes(content))
    found, reasons = skipped(path)
    assert found == [f"d{number}" for number in (*range(10), *range(15, 30))]
    assert [reason.source for reason in reasons] == [f"{path}: rows 11 to 15"]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("a.md", "a.md"), ("x" * 5000, "xxx"), ("c.jsonl#d1", "c.jsonl#d1"), ("none/*.md", "none/*.md"),
        ("empty", "empty"), ("other", "1 of unknown type .7z"), ("links", "1 of a broken link"),
        (b"a.md", "b'a.md' (bytes)"), (" ", "' '"), (5, "5 (int)"),
    ],
)  # fmt: skip
def test_missing_things(tmp_path: Path, monkeypatch: Patch, source: Any, value: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("empty", "links"):
        (tmp_path / name).mkdir()
    stored(tmp_path / "other" / "a.7z", "x")
    (tmp_path / "links" / "gone.md").symlink_to("nowhere")
    assert value in error(source)
    for setting in ({"encoding": "utf8000"}, {"on_error": "go on"}, {"label_from": "path"}):
        with pytest.raises(GraphdocError, match=next(iter(setting.values()))):
            read_documents([], **setting)


@pytest.mark.parametrize(
    ("name", "content", "encoding", "named"),
    [
        ("b.txt", "é".encode("utf-16"), None, None), ("f.txt", codecs.BOM_UTF8 + "é".encode(), None, None),
        ("d.xml", "<?xml version='1.0' encoding='ISO-8859-1'?><html><p>é</p></html>".encode("latin-1"), None, None),
        ("a.txt", "é".encode("latin-1"), "latin-1", None), ("e.csv", "text\né\n".encode("cp1252"), "cp1252", None),
        ("e.csv", "text\né\n".encode("cp1252"), "utf-16", "utf-16"), ("h.txt", "é".encode(), "cp1252", None),
        # Wide encodings without a mark are named.
        *((name, "Käse reift lange.".encode("utf-16-le"), None, "utf-16-le") for name in ("g.txt", "g.html")),
    ],
)  # fmt: skip
def test_encodings(tmp_path: Path, name: str, content: bytes, encoding: str | None, named: str | None) -> None:
    path, options = stored(tmp_path / name, content), {} if encoding is None else {"encoding": encoding}
    if named:
        assert named in error(path, **options)
    else:
        assert [document.text for document in read_documents([path], **options)] == ["é"]


def test_duplicate_ids_name_both_places(tmp_path: Path) -> None:
    for name in ("one.jsonl", "two.jsonl"):
        (tmp_path / name).write_text(json_lines(ROWS), encoding="utf-8")
    message = error(tmp_path)
    assert message.startswith(f"{tmp_path}/two.jsonl:1: ") and "'d0'" in message and "one.jsonl" in message
    report = ReadingReport()
    assert len(ids(tmp_path, on_error="skip", report=report)) == 3
    assert report.duplicate_ids == ["d0", "d1", "d2"] and "the given rows" in error([*ROWS, ROWS[2]])
    report = ReadingReport()
    assert ids([*ROWS, ROWS[2]], unique_ids=False, report=report) == ["d0", "d1", "d2", "d2"]
    assert (report.documents, report.skipped, report.duplicate_ids) == (4, [], [])


def test_labels_in_a_list_are_read_like_single_ones() -> None:
    rows = [{"id": "a", "text": "A.", "label": [1.0, True, "b", None, 2]}, {"id": "b", "text": "B.", "label": True}]
    assert [document.label for document in read_documents(rows)] == [("1", "1", "b", "2"), 1]
    (empty,) = read_documents([{"id": "a", "text": "A.", "label": [None]}])
    assert empty.label is None, "nothing in it is no label, other than an empty list"
    with pytest.raises(DocumentError, match=r"label.*\['b'\] \(list\)"):
        list(read_documents([{"id": "a", "text": "A.", "label": [["b"]]}]))


def test_a_file_too_large_for_memory_costs_one_document(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "large.txt").write_text("Words. " * 1000, encoding="utf-8")
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(b"Words. " * 1000))
    rows = '{"id": "row", "text": "Words."}\n' + json.dumps({"id": "b", "text": "Words. " * 1000})
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    (tmp_path / "small.txt").write_text("Words.", encoding="utf-8")
    monkeypatch.setattr(formats, "free_memory", lambda: 3000)
    report = ReadingReport()
    assert ids(tmp_path, on_error="skip", report=report) == ["row", "small"]
    assert [Path(one.source).name for one in report.skipped] == ["large.txt", "packed.txt.gz", "rows.jsonl.gz"]
    assert all("memory" in one.reason for one in report.skipped)
    with pytest.raises(DocumentError, match=r"large\.txt: .*memory"):
        Document.from_file(tmp_path / "large.txt")


def test_memory_that_runs_out_costs_one_file(tmp_path: Path) -> None:
    """In a process that may take no more than it has: what its limit says is not what the system says is free."""
    for name in ("large.csv", "large.html"):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(2**30)
    stored(tmp_path / "small.txt", "Words.")
    code = (
        "import resource, sys, lxml.etree\nfrom graphdoc.documents.readers import ReadingReport, read_documents\n"
        "taken = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (taken + 2**28,) * 2)\n"
        "report = ReadingReport()\n"
        "print(*(one.id for one in read_documents(sys.argv[1], on_error='skip', report=report)))\n"
        "for one in report.skipped: print(one.source, 'memory' in one.reason)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    lines = ["small", *(f"{tmp_path / name} True" for name in ("large.csv", "large.html"))]
    assert run.stdout.splitlines() == lines, run.stderr


def test_ids_that_clash_between_folders_get_their_folder_in_front(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("tides/a.txt", "tides/only.txt", "vinegar/a.md", "old/tides/a.txt", "a.txt"):
        stored(tmp_path / name, f"Text of {name}.")
    texts = {document.id: document.text for document in read_documents(["tides", "vinegar"])}
    places = {"tides/a": "tides/a.txt.", "only": "tides/only.txt.", "vinegar/a": "vinegar/a.md."}
    assert {id: text.partition(" of ")[2] for id, text in texts.items()} == places
    # One source gives what it always gave; folders of one name get their path, and a file too.
    assert ids("tides") == ["a", "only"]
    assert ids(["tides", "old/tides"]) == ["tides/a", "only", "old/tides/a"]
    assert ids(["tides/*", Path("a.txt")]) == ["tides/a", "only", "a.txt"]
    assert ids(["a.txt", "tides/a.txt", "tides/only.txt"]) == ["a.txt", "tides/a.txt", "only"]


def test_ids_of_a_folder_are_unique_whatever_its_names_are(tmp_path: Path) -> None:
    for number, (names, expected) in enumerate(
        [
            (["a.md", "a.rst", "a.md.txt", "a.md.txt.html"], ["a.md", "a.md.txt", "a.md.txt.html", "a.rst"]),
            (["a.md", "a.md.txt", "b.md", "c.md", "c.rst"], ["a", "a.md", "b", "c.md", "c.rst"]),
            (["d/a.md", "d/a.rst", "a.md.txt", "a.md"], ["a", "a.md", "d/a.md", "d/a.rst"]),
        ]
    ):
        for name in names:
            stored(tmp_path / str(number) / name, f"One thing in {name}.\n")
        assert ids(tmp_path / str(number)) == ids(f"{tmp_path}/{number}/**") == expected


def test_a_file_is_read_once_by_whatever_name(tmp_path: Path, monkeypatch: Patch) -> None:
    for name in ("tides/a.txt", "tides/only.txt", "tides/b\udcff.txt", "tides/broken.docx", "vinegar/a.md"):
        stored(tmp_path / name, f"Text of {name!r}.")
    (tmp_path / "sea").symlink_to("tides")
    monkeypatch.chdir(tmp_path)
    for again in ("tides", "tides/", "./tides", tmp_path / "tides", "sea", "tides/*.txt", "t*", "**/only.txt"):
        report = ReadingReport()
        assert ids(["tides", again], on_error="skip", report=report) == ["a", "b\ufffd", "only"]
        assert len(report.skipped) >= 2 and report.duplicate_ids == []
    # A file that several sources give clashes with another one, but not with itself.
    found = ids(["tides", tmp_path / "tides", "vinegar", "vinegar/a.md"], on_error="skip")
    assert found == ["tides/a", "b\ufffd", "only", "vinegar/a"]
    # In a folder it is passed over, and what is named itself stops, as with what cannot be read.
    assert ids(["tides/only.txt", "tides"], on_error="skip_in_folders") == ["only", "a", "b\ufffd"]
    for first, second in (("tides", "tides/only.txt"), ("sea/only.txt", tmp_path / "tides/only.txt")):
        assert "only.txt: it was read before" in error([first, second], on_error="skip_in_folders")
    # What could not be read was not read before.
    assert "DOCX" in error(["tides", "tides/broken.docx"], on_error="skip_in_folders")
    # A link to a file is a file of its own, and where ids need not be unique all are read.
    (tmp_path / "same.txt").symlink_to("tides/only.txt")
    assert ids(["tides/only.txt", "same.txt"]) == ["only", "same"]
    assert ids(["tides/only.txt", "./tides/only.txt"], unique_ids=False) == ["only", "only"]


def test_labels_are_the_names_of_folders(tmp_path: Path) -> None:
    for name in ("rice/a.txt", "rice/deep/b.txt", "tea/a.txt", "c.txt"):
        stored(tmp_path / "x" / name, "A text.")
    (tmp_path / "x" / "tea" / "rows.jsonl").write_text('{"id": "r", "text": "A row.", "label": "other"}\n')

    def labels(sources: Any, label_from: Any) -> dict[str, Any]:
        return {one.id: one.label for one in read_documents(sources, label_from=label_from)}

    found = {"c": None, "rice/a": "rice", "rice/deep/b": "rice", "tea/a": "tea", "r": "tea"}
    assert labels(tmp_path / "x", "folder") == found
    assert labels(str(tmp_path / "x" / "*"), "folder") == found
    assert labels(tmp_path / "x", "column") == dict.fromkeys(found) | {"r": "other"}
    assert labels([tmp_path / "x" / "tea" / "rows.jsonl"], "folder") == {"r": None}
    # Prefixes of ids are no labels.
    shutil.copytree(tmp_path / "x", tmp_path / "y", ignore=shutil.ignore_patterns("*.jsonl"))
    both = labels([tmp_path / "x", tmp_path / "y"], "folder")
    assert both["x/rice/a"] == both["y/rice/a"] == "rice"


def test_lines_keep_their_numbers_and_are_read_one_at_a_time(tmp_path: Path) -> None:
    content = "\ufeffa\tb \r\n\n \t\r\nc\x0bd\u2028e\nlast"
    for name in ("plain.tsv", "packed.tsv.gz"):
        lines = numbered_lines(stored(tmp_path / name, content))
        assert list(lines) == [(1, "a\tb "), (4, "c\x0bd\u2028e"), (5, "last")]
    lines = numbered_lines(stored(tmp_path / "long.tsv", b"a\nb\n\xff\n"))
    assert [next(lines), next(lines)] == [(1, "a"), (2, "b")]
    with pytest.raises(DocumentError, match=f"{tmp_path}/long.tsv: line 3 "):
        next(lines)
    for path in (tmp_path / "none.tsv", tmp_path):
        with pytest.raises(DocumentError, match=f"^{path}: "):
            list(numbered_lines(path))
