from __future__ import annotations

import ast
import configparser
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points, packages_distributions, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typed import Folders

import graphdoc
from graphdoc.checkpoints.folders import PACKAGED_BACKBONES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "graphdoc"
SOURCES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 500


def imports(node: ast.AST, waits: bool = False) -> Iterator[tuple[str, bool, int]]:
    """Absolute imports that happen when the program runs: name, whether it waits or may be missing, line."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, waits, child.lineno) for alias in child.names)
        if isinstance(child, ast.ImportFrom) and not child.level:
            yield str(child.module), waits, child.lineno
        may_fail = isinstance(child, ast.Try) and "MissingExtraError" in "".join(map(ast.unparse, child.handlers))
        yield from imports(child, waits or may_fail or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.fixture(scope="module")
def requirements() -> dict[str, list[Requirement]]:
    """Requirements by extra; those of the package itself under the empty name."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    lists = {"": setup["options"]["install_requires"], **setup["options.extras_require"]}
    return {name: [Requirement(line) for line in text.split("\n") if line] for name, text in lists.items()}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Built:
    """Names of the files in the sdist, the wheels made from it and from the tree and the editable wheel; metadata."""

    sdist: set[str]
    wheel: set[str]
    wheel_of_tree: set[str]
    editable: set[str]
    metadata: str


@pytest.fixture(scope="module")
def built(tmp_path_factory: Folders) -> Built:
    tree = tmp_path_factory.mktemp("tree")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, tree)
    for folder in (".ci", "configs", "docs", "examples", "graphdoc", "tests"):
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, tree / folder)
    # What compiling leaves behind must not be taken for data.
    (tree / "graphdoc" / "checkpoints" / "__pycache__").mkdir(exist_ok=True)
    (tree / "graphdoc" / "checkpoints" / "__pycache__" / "left.cpython-311.pyc").write_bytes(b"")

    def build(kind: str, folder: Path) -> Path:
        output = tmp_path_factory.mktemp(kind)
        program = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(output)!r}))"
        run = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return output / run.stdout.split()[-1]

    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(build("sdist", tree)) as archive:
        sdist = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
        archive.extractall(unpacked, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    with zipfile.ZipFile(build("wheel", tree)) as archive:
        wheel_of_tree = set(archive.namelist())
    with zipfile.ZipFile(build("editable", tree)) as archive:
        editable = set(archive.namelist())
    (source,) = unpacked.iterdir()
    with zipfile.ZipFile(build("wheel", source)) as archive:
        wheel = set(archive.namelist())
        metadata = archive.read(next(name for name in wheel if name.endswith(".dist-info/METADATA"))).decode()
    return Built(sdist, wheel, wheel_of_tree, editable, metadata)


def test_versions_agree_and_the_command_is_installed() -> None:
    assert graphdoc.__version__ == version("graphdoc")
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None and newest[1] == graphdoc.__version__
    (command,) = entry_points(group="console_scripts", name="graphdoc")
    assert callable(command.load())


def test_wheel_holds_every_file_of_the_package_and_nothing_else(built: Built) -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"graphdoc/py.typed", "graphdoc/checkpoints/mini/config.json"} <= files
    assert {Path(file).suffix for file in files} >= {".css", ".html", ".js"}
    assert files - built.sdist == files - built.wheel == set()
    info = f"graphdoc-{graphdoc.__version__}.dist-info"
    assert {name.split("/")[0] for name in built.wheel} == {"graphdoc", info}
    assert built.wheel_of_tree == built.wheel
    assert not [name for name in built.sdist | built.wheel if "__pycache__" in name]
    assert "\nLicense-Expression: Apache-2.0\n" in built.metadata and f"{info}/licenses/LICENSE" in built.wheel
    assert "\nRequires-Python: >=3.11\n" in built.metadata
    # Configs and example documents travel with it.
    configs = [
        path.relative_to(ROOT).as_posix()
        for task in ("pretrain", "finetune")
        for path in ROOT.glob(f"configs/{task}/*.yaml")
    ]
    documents = [path.relative_to(ROOT).as_posix() for path in (ROOT / "examples" / "documents").iterdir()]
    assert len(configs) > 20
    assert {f"graphdoc/{path}" for path in (*configs, *documents)} <= built.wheel
    # An sdist can be tested.
    wanted = {"CHANGELOG.md", "LICENSE", "Makefile", "README.md", "constraints.txt", ".ci/run", "tests/conftest.py"}
    assert wanted - built.sdist == set()


def test_an_editable_install_is_a_path(built: Built) -> None:
    """A finder instead of it would not be asked beside the clone, whose folder passes for a package without a file."""
    own = {name for name in built.editable if ".dist-info/" not in name}
    assert own == {f"__editable__.graphdoc-{graphdoc.__version__}.pth"}


def test_extras_in_messages_exist(requirements: dict[str, list[Requirement]]) -> None:
    named = {extra: f"PACKAGED_BACKBONES of {backbone}" for backbone, (_, extra) in PACKAGED_BACKBONES.items()}
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("MissingExtraError"):
                extra = [*node.args, *(word.value for word in node.keywords if word.arg == "extra")][1]
                assert isinstance(extra, ast.Constant), f"{path}:{node.lineno} does not name the extra as a word"
                named[extra.value] = f"{path}:{node.lineno}"
    for path in [*SOURCES, *ROOT.glob("*.md"), *PACKAGE.rglob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for match in re.finditer(r"(?:graphdoc|'\.)\[([a-z, ]+)\]", path.read_text(encoding="utf-8")):
            named.update(dict.fromkeys(re.split(r", *", match[1]), str(path)))
    assert {"ingest", "offline"} <= set(named)
    assert {extra: place for extra, place in named.items() if extra not in requirements} == {}


def test_imported_libraries_are_required(requirements: dict[str, list[Requirement]]) -> None:
    """A library imported with its module belongs to the core; one that waits or may be missing to an extra as well."""
    core = {canonicalize_name(requirement.name) for requirement in requirements[""]}
    optional = requirements.keys() - {"", "dev"}
    extras = {canonicalize_name(one.name) for extra in optional for one in requirements[extra]}
    homes = packages_distributions()
    missing = []
    for path in SOURCES:
        for name, waits, line in imports(parsed(path)):
            top = name.split(".")[0]
            if top == "graphdoc" or top in sys.stdlib_module_names:
                continue
            if not {canonicalize_name(home) for home in homes.get(top, [top])} & (core | extras if waits else core):
                missing.append(f"{path.relative_to(ROOT)}:{line} imports {top}")
    assert missing == []


def test_constraints_pin_what_is_required(requirements: dict[str, list[Requirement]]) -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    versions = {}
    for pin in pins:
        (specifier,) = pin.specifier
        assert specifier.operator == "==" and "+" not in specifier.version and pin.url is None, str(pin)
        versions[canonicalize_name(pin.name)] = specifier.version
    assert versions["torch"] == "2.13.0"
    for requirement in (one for several in requirements.values() for one in several):
        pinned = versions.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"constraints.txt has no {requirement.name}"
        assert requirement.specifier.contains(pinned), f"constraints.txt: {pinned} is not {requirement}"


def test_importing_the_package_waits_for_nothing() -> None:
    """Neither reading for torch, nor searching for frameworks that may call it and a client that it never calls."""
    program = (
        "import sys, graphdoc, graphdoc.cli; print({'torch', 'transformers', 'pandas'} & set(sys.modules))\n"
        "graphdoc.DocumentEncoder, graphdoc.DocumentIndex; print({'langchain_core', 'llama_index'} & set(sys.modules))"
        "\nfrom graphdoc.retrieval import lance; client = lance._lancedb() and 'lance_namespace_urllib3_client'\n"
        "print(f'{client}.api' in sys.modules, __import__(client).ApiClient.__name__)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["set()", "set()", "False", "ApiClient"]


def test_files_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in SOURCES
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert long == {}
