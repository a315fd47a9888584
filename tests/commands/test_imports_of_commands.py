"""What commands import: large libraries only where they are used."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.feature_extraction import text

from graphdoc import commands
from graphdoc.cli import command_words
from graphdoc.registry import training_commands
from graphdoc.subtopics.terms import ENGLISH_STOP_WORDS

CODE = """
import sys
from graphdoc.cli import main
status = main(sys.argv[1:])
print("modules:", *sorted({name.partition(".")[0] for name in sys.modules}))
sys.exit(status)
"""
RUNS_MODELS = {"torch", "transformers"}
UNUSED = {"torch_geometric", "sklearn", "pandas", "matplotlib", "datasets", "lancedb", "peft", "ray"}


def imported(*arguments: str) -> set[str]:
    run = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.rpartition("modules:")[2].split())


@pytest.mark.parametrize("command", [("encode", "a.txt"), ("compare", "a.txt", "b.md"), ("attention", "b.md")])
def test_commands_that_run_a_model_import_little_beside_it(
    command: tuple[str, ...], model: str, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Rice is steamed. It is served warm.")
    (tmp_path / "b.md").write_text("# Rice\n\nRice is steamed.\n\n# Tea\n\nTea is brewed.\n")
    modules = imported(*command, "--model", model)
    assert modules >= RUNS_MODELS
    assert not modules & UNUSED


def test_every_module_with_arguments_is_a_command() -> None:
    found = []
    for file in Path(commands.__file__).parent.glob("*.py"):
        module = importlib.import_module(f"graphdoc.commands.{file.stem}")
        if hasattr(module, "run") and hasattr(module, "add_arguments"):
            found.append(file.stem)
    words = command_words()
    assert len(words) == len(set(words))
    of_modules = [one.replace(" ", "_") for one in words if one not in training_commands()]
    assert sorted(of_modules) == sorted(found) and len(found) > 20


def test_a_command_does_not_import_the_others() -> None:
    code = "import sys; from graphdoc import cli; cli.build_command_parser(sys.argv[1]); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code, "encode"], capture_output=True, text=True, check=True)
    of_commands = {name for name in run.stdout.split() if name.startswith("graphdoc.commands.")}
    assert "graphdoc.commands.encode" in of_commands
    assert not of_commands & {"graphdoc.commands.compare", "graphdoc.commands.training_run"}


def test_settings_are_shown_without_torch() -> None:
    assert not imported("pretrain", "--config", "configs/pretrain/quickstart.yaml", "--print") & (RUNS_MODELS | UNUSED)


def test_stop_words_are_those_that_models_were_made_with() -> None:
    assert ENGLISH_STOP_WORDS == text.ENGLISH_STOP_WORDS


BLOCKED = """
import sys
for name in ("sqlglot", "pypandoc", "fastapi", "ray"):
    sys.modules[name] = None
from graphdoc.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_folder_is_searched_without_the_libraries_of_other_stores(model: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb", reason="needs the extra graphdoc[retrieval]")
    (tmp_path / "rice.txt").write_text("Rice is steamed. It is served warm.")
    (tmp_path / "tides.txt").write_text("Tides rise twice a day. The moon pulls the sea.")

    def searched(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", BLOCKED, "search", *arguments, "--model", model]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    found = searched(str(tmp_path), "moon")
    assert found.returncode == 0, found.stderr
    assert "tides" in found.stdout
    missing = searched(str(tmp_path / "nowhere"), "moon")
    assert missing.returncode == 2 and "nowhere" in missing.stderr and "sqlglot" not in missing.stderr
