from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import PATIENCE

import graphdoc
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import MissingExtraError
from graphdoc.similarity import Comparison

Command = Callable[..., Any]
COMMANDS = ("compare", "encode", "attention", "graph")
ROOT = Path(graphdoc.__file__).parent.parent


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start the command line in a process of its own."""
    # A test runner's own idea of the terminal's size shall not reach it.
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment = {**inherited, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "graphdoc", *map(str, arguments)]

    def listen_to_control_c() -> None:
        # What a shell starts in the background ignores it, and so would everything that is started from there.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, preexec_fn=listen_to_control_c, **options
    )


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_examples(self, graphdoc: Command, command: str) -> None:
        status, out, err = graphdoc(command, "--help")
        assert (status, err) == (0, "")
        examples = out[out.index("\nexamples:\n") :].splitlines()[2:]
        assert len([line for line in examples if f"graphdoc {command} " in line]) >= 3
        for option in ("--model", "--device", "--dtype", "--json", "--csv", "--output", "--max-passages"):
            assert option in out
        for option in ("--plot",) * (command != "encode") + ("--html",) * (command == "compare"):
            assert option in out

    def test_the_first_line_names_what_is_needed(self, graphdoc: Command) -> None:
        _, out, _ = graphdoc("finetune", "classify", "--help")
        assert out.splitlines()[:2] == [
            "usage: graphdoc finetune classify --config FILE [KEY=VALUE ...] [options]",
            "",
        ]
        _, out, _ = graphdoc("compare", "--help")
        assert out.startswith("usage: graphdoc compare A [B] [C ...] [options]\n\n")
        assert graphdoc("evaluate", "--help").out.startswith("usage: graphdoc evaluate [-h] TASK ...\n")

    def test_overview(self, graphdoc: Command) -> None:
        status, out, _ = graphdoc("--help")
        assert status == 0
        assert all(f"  {command}" in out for command in COMMANDS)
        assert "examples:" in out
        assert graphdoc("--version").out.startswith("graphdoc ")

    def test_no_command_shows_the_overview(self, graphdoc: Command) -> None:
        status, out, err = graphdoc()
        assert (status, err) == (2, "graphdoc: the following arguments are required: COMMAND (see graphdoc --help)\n")
        assert out == graphdoc("--help").out

    def test_examples_of_the_help_are_accepted(self, graphdoc: Command) -> None:
        from graphdoc.cli import parse

        for command in COMMANDS:
            _, out, _ = graphdoc(command, "--help")
            for line in out[out.index("\nexamples:\n") :].splitlines()[2:]:
                words = line.split("   ")[0].split()
                if words:
                    assert parse(words[words.index("graphdoc") + 1 :]).command == command


class TestArguments:
    def test_options_may_stand_anywhere(self, graphdoc: Command, two: tuple[Path, Path], model: str) -> None:
        a, b = two
        expected = graphdoc("compare", a, b, "--model", model, "--json", "-").out
        assert json.loads(expected)["b"]["id"] == "b"
        assert graphdoc("compare", "--json", "-", a, "--model", model, b).out == expected
        assert graphdoc("compare", "--json", "-", "--model", model, a, b).out == expected
        together = graphdoc("encode", a, "--model", model, b, "--json", "-").out
        assert json.loads(together)["ids"] == ["a", "b"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("compre", "a.md"), "graphdoc: command compre is unknown; did you mean compare?"),
            (("evaluate", "clustr"), "graphdoc evaluate: task clustr is unknown; did you mean cluster?"),
            (("zzz", "a.md"), "graphdoc: argument COMMAND: invalid choice: 'zzz'"),
            (("--modle", "x"), "graphdoc: "),
            (("compare",), "graphdoc compare: the following arguments are required: A (see graphdoc compare --help)"),
            (("encode",), "graphdoc encode: the following arguments are required: SOURCE"),
            (("graph", "a", "--knid", "full"), "graphdoc graph: option --knid is unknown; did you mean --kind?"),
            (("graph", "a", "--xyzzy"), "graphdoc graph: option --xyzzy is unknown (see graphdoc graph --help)"),
            (("graph", "a", "--kin", "full"), "graphdoc graph: option --kin is unknown; did you mean --kind?"),
            (("graph", "a", "b"), "graphdoc graph: 'b' is one argument too many"),
            (("graph", "a", ""), "graphdoc graph: '' is one argument too many"),
            (("graph", "a", "-"), "graphdoc graph: '-' is one argument too many"),
            (("graph", "a", "\x1b[31mb\n"), "graphdoc graph: '"),
            (("compare", "a", "--top", "9" * 5000), "graphdoc compare: argument --top: '999"),
            (("encode", "a", "--shard-size", "9" * 30), "graphdoc encode: argument --shard-size: '999"),
            (("encode", "a", "--encoding", "x" * 5000), "graphdoc encode: encoding 'xxx"),
        ],
    )
    def test_mistakes(self, refused: Command, arguments: tuple[str, ...], message: str) -> None:
        line = refused(*arguments)
        assert line.startswith(message)
        assert len(line) <= 1000


BAD_DOCUMENTS: dict[str, tuple[bytes, str]] = {
    "empty.md": (b"", "empty.md: it has no text; leave it out"),
    "space.txt": (b" \n\t\n", "space.txt: it has no text"),
    "markup.html": (b"<html><body><script>x</script></body></html>", "markup.html: it has no text"),
    "latin.txt": ("Grüße".encode("latin-1"), "latin.txt: it is not utf-8 text (byte 0xfc at offset 2)"),
    "image.png": (b"\x89PNG", "image.png: its type .png is unknown; known are .txt .md"),
    "lines.jsonl": (b'{"id": "a", "text": "x y"}\n\n{"id": }\n', "lines.jsonl:3: invalid JSON at column 8"),
    "list.jsonl": (b"[1]\n", "list.jsonl:1: a JSON object is expected, not a list"),
    "body.jsonl": (b'{"id": "a", "body": "x"}\n', "body.jsonl:1: row 'a': it has neither column 'text' nor"),
    "body.csv": (b"id,body\na,x\n", "body.csv:2: row 'a': it has neither column 'text' nor"),
    "bomb.xml": (
        b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><article><body><p>&b;</p></body></article>',
        "bomb.xml: ",
    ),
    "zero.txt": ("\u200b".encode(), "document 'zero' has no text to encode; leave it out"),
}


class TestBadDocuments:
    @pytest.mark.parametrize("name", BAD_DOCUMENTS)
    @pytest.mark.parametrize("command", COMMANDS)
    def test_content(self, refused: Command, tmp_path: Path, model: str, command: str, name: str) -> None:
        content, message = BAD_DOCUMENTS[name]
        (tmp_path / name).write_bytes(content)
        line = refused(command, name, "--model", model, "--output", "out")
        assert line.startswith(f"graphdoc {command}: ")
        assert message in line

    @pytest.mark.parametrize("command", COMMANDS)
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("missing.md", "missing.md: there is no such file or folder; check the path"),
            ("missing.jsonl#a", "missing.jsonl#a: there is no such file or folder"),
            ("corpus.jsonl#c", "corpus.jsonl: there is no document 'c'; nearest are "),
            ("*.nothing", "*.nothing: nothing that matches the pattern"),
            ("void", "void: nothing in the folder is a file of a known type"),
            ("", "the name of a document is empty"),
            ("no\x1b\x9b\nfile", "no file: there is no such file"),
        ],
    )
    def test_sources(
        self, refused: Command, tmp_path: Path, model: str, command: str, source: str, message: str
    ) -> None:
        (tmp_path / "corpus.jsonl").write_text('{"id": "a", "text": "x y"}\n{"id": "b", "text": "z"}\n')
        (tmp_path / "void").mkdir()
        assert message in refused(command, source, "--model", model, "--output", "out")

    @pytest.mark.parametrize("content", [b"", b"  \n", b"\xff\xfa", b'{"id": "a", "text": \n'])
    def test_standard_input(self, refused: Command, model: str, content: bytes) -> None:
        assert "standard input" in refused("compare", "-", "--model", model, stdin=content)

    def test_unreadable_file(self, refused: Command, tmp_path: Path, model: str, monkeypatch: Any) -> None:
        (tmp_path / "secret.md").write_text("text")
        opened = Path.open

        def deny(path: Path, *arguments: Any, **options: Any) -> Any:
            if path.name == "secret.md":
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return opened(path, *arguments, **options)

        monkeypatch.setattr(Path, "open", deny)
        message = refused("compare", "secret.md", "--model", model)
        assert "secret.md: permission to read it is denied" in message


class TestBadPlaces:
    @pytest.mark.parametrize("command", ["compare", "attention", "graph", "encode"])
    def test_folder_without_permission(
        self, refused: Command, two: tuple[Path, Path], model: str, command: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("os.access", lambda *_: False)
        assert "o.json cannot be written: no permission in " in refused(command, two[0], "--json", "o.json")

    def test_what_is_read_is_not_replaced(self, refused: Command, two: tuple[Path, Path], model: str) -> None:
        (two[0].parent / "link.html").symlink_to("b.html")
        for output in ("b.html", "./b.html", "link.html"):
            message = refused("compare", *two, "--model", model, "--html", output)
            assert message.endswith(f"{output} is read, and would be replaced; give another place")
        corpus = two[0].with_name("c.jsonl")
        corpus.write_text('{"id": "x", "text": "Some text."}\n')
        assert "c.jsonl is read" in refused("graph", "c.jsonl#x", "--model", model, "--json", "c.jsonl")
        assert "c.jsonl is read" in refused("encode", two[0].parent, "--model", model, "--json", "./c.jsonl")

    def test_shards_are_not_written_where_they_would_be_read(
        self, refused: Command, two: tuple[Path, Path], model: str
    ) -> None:
        for output in (".", "vectors", "deep/vectors", "../" + two[0].parent.name):
            message = refused("encode", ".", "--model", model, "--output", output)
            assert message.endswith(f"{output} lies in ., all of which is read; give a place outside")

    def test_links_to_one_file_are_one_place(self, refused: Command, two: tuple[Path, Path], model: str) -> None:
        (two[0].parent / "link").symlink_to("o")
        message = refused("compare", *two, "--model", model, "--json", "o", "--html", "link")
        assert message.endswith(" is given for two outputs; give each its own file")

    def test_only_json_goes_to_standard_output(self, refused: Command, two: tuple[Path, Path], model: str) -> None:
        for option in ("--html", "--csv", "--plot"):
            message = refused("compare", *two, "--model", model, option, "-")
            assert f"{option} cannot go to standard output, only --json can" in message

    @pytest.mark.parametrize("option", ["--json", "--output"])
    @pytest.mark.parametrize("command", COMMANDS)
    def test_names_that_are_too_long(
        self, refused: Command, two: tuple[Path, Path], model: str, command: str, option: str
    ) -> None:
        message = refused(command, two[0], "--model", model, option, "x" * 300)
        assert "cannot be written: File name too long; choose another" in message

    @pytest.mark.parametrize("option", ["--json", "--csv", "--html", "--plot"])
    def test_full_disk(
        self,
        refused: Command,
        two: tuple[Path, Path],
        model: str,
        option: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def full(path: Path, *_: Any) -> Path:
            assert path.stat().st_size > 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "replace", full)
        message = refused("compare", *two, "--model", model, option, "result.png")
        assert message.startswith("graphdoc compare: result.png cannot be written: No space left on device; ")
        assert "free some space" in message

    def test_full_disk_while_encoding(
        self, graphdoc: Command, two: tuple[Path, Path], model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def full(*_: Any) -> Path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "replace", full)
        status, out, err = graphdoc("encode", *two, "--model", model, "--output", "vectors")
        assert (status, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert "No space left on device" in err
        assert not list(tmp_path.rglob("manifest.json"))
        assert not list(tmp_path.rglob("*.parquet"))

    @pytest.mark.slow
    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_full_standard_output(self, two: tuple[Path, Path], model: str) -> None:
        with Path("/dev/full").open("wb") as full:
            process = start("graph", two[0], "--model", model, stdout=full)
            _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 2
        assert err.decode() == "graphdoc graph: No space left on device; free some space and try again\n"


class TestEnds:
    def test_interrupted(
        self, graphdoc: Command, two: tuple[Path, Path], model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def interrupt(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(DocumentEncoder, "compare", interrupt)
        status, out, err = graphdoc("compare", *two, "--model", model, "--output", "out")
        assert (status, out, err) == (130, "", "graphdoc compare: interrupted\n")
        assert not (tmp_path / "out").exists()

    def test_interrupted_while_writing(
        self, graphdoc: Command, two: tuple[Path, Path], model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def interrupt(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Path, "replace", interrupt)
        status, _, _ = graphdoc("compare", *two, "--model", model, "--json", "out.json")
        assert status == 130
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.md", "b.html"]

    @pytest.mark.parametrize(
        "error",
        [
            MemoryError(),
            RuntimeError("alloc_cpu.cpp: DefaultCPUAllocator: can't allocate memory: 9 bytes\n"),
            RuntimeError("could not create a primitive"),
            RuntimeError("std::bad_alloc"),
            ImportError("libgfortran.so.5.0.0: failed to map segment from shared object"),
            OSError(errno.ENOMEM, "Cannot allocate memory"),
        ],
        ids=["python", "torch", "onednn", "c++", "linker", "system"],
    )
    def test_too_little_memory(
        self,
        refused: Command,
        two: tuple[Path, Path],
        model: str,
        error: Exception,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr(DocumentEncoder, "compare", fail)
        message = refused("compare", *two, "--model", model)
        assert message == (
            "graphdoc compare: there is too little memory; give smaller documents or fewer of their passages "
            "(max_passages), a lower token_budget, or a smaller model"
        )

    def test_a_missing_extra_names_the_command(
        self, refused: Command, two: tuple[Path, Path], model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def missing(*_: Any, **__: Any) -> None:
            raise MissingExtraError("pypandoc_binary", "ingest", "read LaTeX")

        monkeypatch.setattr("graphdoc.commands.compare.read_one", missing)
        message = refused("compare", *two, "--model", model)
        assert message.endswith("; install it, in the folder of the clone, with: pip install -e '.[ingest]'")

    def test_mistakes_in_the_program_are_not_hidden(
        self, graphdoc: Command, two: tuple[Path, Path], model: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(Comparison, "to_dict", broken)
        with pytest.raises(RuntimeError, match="a bug"):
            graphdoc("compare", *two, "--model", model, "--json", "-")

    def test_control_c_while_reading(self) -> None:
        process = start("compare", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        # More than a pipe holds: when it is written, the program is reading.
        process.stdin.write(b"Some text that has not ended. " * 20_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (130, b"", b"graphdoc compare: interrupted\n")

    def test_a_reader_that_goes_away(self, two: tuple[Path, Path], model: str) -> None:
        process = start("graph", two[0], "--model", model, "--json", "-", stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (141, b"")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_a_terminal_is_filled_and_not_exceeded(examples: Path, model: str) -> None:
    import fcntl
    import struct
    import termios

    width = 40
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    process = start("compare", examples / "koji.md", examples / "vinegar.md", "--model", model, stdout=theirs)
    os.close(theirs)
    shown = b""
    # Linux ends a terminal whose other side is closed with an error.
    with contextlib.suppress(OSError):
        while block := os.read(ours, 65536):
            shown += block
    os.close(ours)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()
    assert width - 5 <= max(map(len, lines)) <= width
    assert "Koji: the mould behind soy sauce" in " ".join(lines)
