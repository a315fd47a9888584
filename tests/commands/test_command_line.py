"""The boundary of every command: one line and an exit status for what goes wrong, and help that teaches."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from forked import PATIENCE
from sklearn.feature_extraction import text
from typed import Command, Patch

import graphdoc
from graphdoc.cli import COMMANDS, build_app, parse
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import MissingExtraError
from graphdoc.segmentation.terms import ENGLISH_STOP_WORDS
from graphdoc.similarity import Comparison

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

    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, preexec_fn=listen_to_control_c, **options)


@pytest.mark.parametrize("words", COMMANDS)
def test_help_explains_every_option_and_its_examples_work(graphdoc: Command, words: str) -> None:
    status, out, err = graphdoc(*words.split(), "--help")
    assert (status, err) == (0, "")
    app = build_app()
    for word in words.split():
        app = app[word]
    for argument in app.assemble_argument_collection():
        if argument.parse and argument.names[0].startswith("--"):
            # The label, and what it is for, in the same line or in the next one.
            assert re.search(rf"^  {re.escape(argument.names[0])}( \S+)?\s{{1,40}}\w", out, re.MULTILINE)
    examples = re.findall(rf"^  graphdoc ({words}.*?)(?:   .*)?$", out.partition("Usage examples:")[2], re.MULTILINE)
    assert examples
    for example in examples:
        parse(shlex.split(example.partition(" | ")[0]))


def test_the_overview_names_every_command(graphdoc: Command) -> None:
    out = graphdoc("--help").out
    assert graphdoc().out == out and all(f"  {words.partition(' ')[0]}" in out for words in COMMANDS)
    assert graphdoc("--version").out.startswith("graphdoc ")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("serch", "my.index"), "mean search?"),
        (("evaluate", "clustr"), "mean cluster?"),
        (("search", "a", "storm", "surge"), "query of several words"),
        (("compare", "a", "b", "--reports", "3"), "--reports"),
        (("attention", "a", "--graf", "full"), "--graph"),
        (("attention",), "DOCUMENT"),
        (("compare", "a", "--top-k", "9" * 5000), "--top-k"),
        (("search", "a", "b", "--weight", "nan"), "--weight"),
        (("encode", "a", "--max-passages", "0"), "--max-passages"),
        (("encode", "a", "--column", "body"), "body"),
        (("encode", "a", "--level", "section"), "--output"),
        (("pretrain",), "--config"),
        (("pretrain", "--config", "quickstrt"), "quickstart"),
        (("pretrain", "--config", "own_labels"), "own_labels"),
        (("finetune", "classfy", "--config", "own_labels"), "classify"),
        (("search", "a", "b", "--by", "sentences"), "--document"),
        (("search", "a", "b", "--by", "words", "--pool", "9"), "--pool"),
        (("overview",), "--vectors"),
        (("compare",), "no document"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_arguments_that_do_not_fit_are_named(refused: Command, arguments: tuple[str, ...], named: str) -> None:
    line = refused(*arguments)
    assert named in line and len(line) <= 1000


def test_sources_that_cannot_be_read_are_named(refused: Command, tmp_path: Path, model: str) -> None:
    for name, content in {
        "empty.md": b"",
        "latin.txt": "Grüße".encode("latin-1"),
        "lines.jsonl": b'{"id": "a", "text": "x y"}\n\n{"id": }\n',
        "body.csv": b"id,body\na,x\n",
        "zero.txt": "\u200b".encode(),
    }.items():
        (tmp_path / name).write_bytes(content)
        assert name.partition(".")[0] in refused("compare", name, "--model", model)
    # What is not there is named before a model is loaded.
    (tmp_path / "corpus.jsonl").write_text('{"id": "a", "text": "x y"}\n{"id": "b", "text": "z"}\n')
    (tmp_path / "void").mkdir()
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "config.json").write_text("{}")
    for source in ("missing.jsonl#a", "corpus.jsonl#c", "*.nothing", "void", ""):
        assert source.partition("#")[0] in refused("encode", source, "--model", "./none")
    # One document that can be read is not compared with itself where others were skipped.
    for name, words in (("a.md", "x y"), ("b.md", "")):
        (tmp_path / "void" / name).write_text(words)
    assert "b.md" in refused("compare", "void", "--model", "./none")


class TestPlaces:
    def test_what_is_read_is_not_replaced(self, refused: Command, two: tuple[Path, Path], model: str) -> None:
        (two[0].parent / "link.html").symlink_to("b.html")
        for output in ("b.html", "./b.html", "link.html"):
            assert output in refused("compare", *two, "--model", model, "--html", output)
        assert "a.md" in refused("encode", two[0].parent, "--model", model, "--json", "./a.md")
        for output in (".", "vectors", "deep/vectors", "../" + two[0].parent.name):
            assert output in refused("encode", ".", "--model", model, "--output", output)

    def test_what_cannot_be_written(self, refused: Command, two: tuple[Path, Path], model: str) -> None:
        assert "a.md is a file" in refused("index", two[1], "--model", model, "--output", two[0])
        (two[0].parent / "link").symlink_to("same")
        for places in (
            ("--html", "-"),
            ("--plot", "a.txt"),
            ("--json", "x" * 300),
            ("--json", "."),
            ("--json", "a.md/b.json"),
            ("--json", "same", "--html", "link"),
        ):
            refused("compare", *two, "--model", model, *places)

    @pytest.mark.parametrize(
        ("error", "status"), [(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 2), (KeyboardInterrupt(), 130)]
    )
    def test_a_full_disk_and_an_interruption_leave_nothing(
        self, graphdoc: Command, two: tuple[Path, Path], model: str, monkeypatch: Patch, error: Any, status: int
    ) -> None:
        def fail(path: Path, *_: Any) -> Path:
            assert path.stat().st_size > 0
            raise error

        monkeypatch.setattr(Path, "replace", fail)
        run = graphdoc("compare", *two, "--model", model, "--json", "result.json")
        assert run.status == status and (status != 2 or "result.json" in run.err)
        assert sorted(path.name for path in two[0].parent.iterdir()) == ["a.md", "b.html"]

    def test_reports_do_not_replace_files_of_others(
        self, graphdoc: Command, two: tuple[Path, Path], model: str, tmp_path: Path
    ) -> None:
        folder, report = tmp_path / "papers", tmp_path / "all-reports" / "0001.html"
        folder.mkdir()
        report.parent.mkdir()
        for path in two:
            path.rename(folder / path.name)
        report.write_text("of others")
        arguments = ("compare", folder, "--model", model, "--html", "all.html", "--reports", "1")
        status, _, err = graphdoc(*arguments)
        assert status == 2 and "0001.html" in err
        assert report.read_text() == "of others"
        assert graphdoc(*arguments, "--overwrite").status == 0
        assert report.read_text() != "of others"
        # What graphdoc wrote is replaced, until somebody changes it.
        assert graphdoc(*arguments).status == 0
        report.write_text("changed")
        assert graphdoc(*arguments).status == 2 and report.read_text() == "changed"


class TestEnds:
    def test_what_users_can_mend_ends_with_2(
        self, refused: Command, two: tuple[Path, Path], model: str, monkeypatch: Patch
    ) -> None:
        for error in (
            MemoryError(),
            RuntimeError("alloc_cpu.cpp: DefaultCPUAllocator: can't allocate memory: 9 bytes\n"),
            ImportError("libgfortran.so.5.0.0: failed to map segment from shared object"),
            OSError(errno.ENOMEM, "Cannot allocate memory"),
            MissingExtraError("pypandoc", "ingest", "read LaTeX"),
        ):
            monkeypatch.setattr(DocumentEncoder, "compare", Mock(side_effect=error))
            refused("compare", *two, "--model", model)

    def test_what_nobody_expected_ends_with_1_and_is_traced_on_request(
        self, graphdoc: Command, two: tuple[Path, Path], model: str, monkeypatch: Patch
    ) -> None:
        monkeypatch.setattr(Comparison, "to_dict", Mock(side_effect=RuntimeError("a bug\non two lines")))
        status, _, err = graphdoc("compare", *two, "--model", model, "--json", "-")
        assert status == 1 and len(err.splitlines()) == 1
        assert "RuntimeError" in err and "a bug" in err and "--debug" in err
        with pytest.raises(RuntimeError, match="a bug"):
            graphdoc("compare", *two, "--model", model, "--json", "-", "--debug")

    def test_control_c_while_reading(self) -> None:
        process = start("compare", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        # More than a pipe holds: when it is written, the program is reading.
        process.stdin.write(b"Some text that has not ended. " * 20_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (130, b"") and len(err.splitlines()) == 1

    def test_a_reader_that_goes_away(self) -> None:
        process = start("finetune", "--schema", stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (141, b"")


class TestImports:
    CODE = """
import json, sys
from graphdoc.cli import main
for arguments in json.loads(sys.argv[1]):
    try:
        assert main(arguments) == (2 if "./nowhere" in arguments[-1] else 0)
    except SystemExit as end:
        assert not end.code
print("modules:", *sorted({name.partition(".")[0] for name in sys.modules if "graphdoc" not in name}
                          | {name for name in sys.modules if name.startswith("graphdoc.commands.")}))
"""
    MODELS = frozenset({"torch", "transformers"})
    UNUSED = frozenset({"torch_geometric", "sklearn", "pandas", "matplotlib", "datasets", "lancedb", "peft", "ray"})

    def imported(self, *commands: list[str]) -> set[str]:
        run = subprocess.run([sys.executable, "-c", self.CODE, json.dumps(commands)], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert run.stderr.count("nowhere") == str(commands).count("nowhere")
        return set(run.stdout.rpartition("modules:")[2].split())

    def test_a_command_that_runs_a_model_imports_little_beside_it(self, two: tuple[Path, Path], model: str) -> None:
        modules = self.imported(["compare", *map(str, two), "--model", model])
        assert modules >= self.MODELS and not modules & self.UNUSED
        assert not modules & {f"graphdoc.commands.{name}" for name in ("encode", "attention", "overview", "training")}

    def test_help_and_settings_need_no_torch(self) -> None:
        settings = ["pretrain", "--config", "quickstart", "--print"]
        assert not self.imported(["--help"], settings, ["finetune", "--schema"]) & (self.MODELS | self.UNUSED)

    def test_a_missing_model_needs_no_torch(self, two: tuple[Path, Path]) -> None:
        needed = dict.fromkeys(["encode", "fit", "index"], "--output x")
        needed |= {"mine": "--output x --queries q", "search": "tide", "evaluate search": "--queries q"}
        needed |= {"evaluate compare": "--pairs p", "evaluate related": "--relevant r"}
        files = {name: "" if name == "evaluate search" else str(two[0]) for name in COMMANDS}
        runs = [f"{name} {file} {needed.get(name, '')} --model ./nowhere" for name, file in files.items()]
        training = f"corpus.source={two[0]} model.start=./nowhere"
        runs = [run for run in runs if not run.startswith(("pretrain", "finetune"))]
        runs += [f"pretrain --config quickstart {training}", f"finetune classify --config own_labels {training}"]
        assert not self.imported(*map(str.split, runs)) & {"torch"}


def test_stop_words_are_those_that_models_were_made_with() -> None:
    assert ENGLISH_STOP_WORDS == text.ENGLISH_STOP_WORDS
