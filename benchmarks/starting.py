"""Processor seconds that a command takes until its model first runs.

``python benchmarks/starting.py``

Each command runs in a process of its own on two example documents and ends where the transformer is called for the
first time: what went before is importing, reading, cutting and loading. Beside it stand what its libraries take alone.
Modules are compiled before, as pip does when it installs a package.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from reporting import ROOT, describe_machine, write_result

DOCUMENTS = [str(ROOT / "examples" / "documents" / name) for name in ("vinegar.md", "koji.md")]
FLOORS = {
    "`import torch`": "import torch",
    "`import torch, transformers`": "import torch, transformers",
    "a model class of transformers": "from transformers import BertModel",
    "the same without the garbage collector": "import gc; gc.disable(); from transformers import BertModel",
    "that and PyG": "import gc; gc.disable(); from transformers import BertModel; import torch_geometric",
}
# Ends the process where work begins; what a command prints before goes to the error stream.
COMMAND = """
import os, sys, time
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

class Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "graphdoc.modeling.passage_encoder":
            return None
        spec = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            def begin(*_, **__):
                os.write(int(os.environ["BEGIN"]), f"{time.process_time()}".encode())
                os._exit(0)
            module.PassageEncoder.tokens = begin
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
from graphdoc.cli import main
sys.exit(main(sys.argv[1:]))
"""
FLOOR = "{}; import os, time; os.write(int(os.environ['BEGIN']), str(time.process_time()).encode())"


def seconds(code: str, *arguments: str, environment: dict[str, str]) -> float:
    """Processor seconds that a process counts until it writes them."""
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        pass_fds=[writing],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**environment, "BEGIN": str(writing)},
        text=True,
    ) as process:
        os.close(writing)
        with os.fdopen(reading) as reader:
            written = reader.read()
        error = process.communicate()[1]
    if not written:
        raise SystemExit(f"graphdoc {' '.join(arguments)} ended before its model ran: {error.strip()}")
    return float(written)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="runs of each, in turn; the median counts")
    options = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        index, labels = Path(folder) / "index", Path(folder) / "labels.jsonl"
        rows = [f'"id": "{row}", "text": "Text {row}.", "label": "{row % 2}"' for row in range(8)]
        parts = [f'{{{row}, "split": "{("train", "test")[number // 4]}"}}\n' for number, row in enumerate(rows)]
        labels.write_text("".join(parts))
        subprocess.run(
            [sys.executable, "-m", "graphdoc", "index", *DOCUMENTS, "--output", index, "--dtype", "float32"],
            env=environment, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        fixed = ["--dtype", "float32"]
        commands = {
            "encode": ["encode", *DOCUMENTS, *fixed],
            "compare": ["compare", *DOCUMENTS, *fixed],
            "search": ["search", str(index), "vinegar", *fixed],
            "index": ["index", *DOCUMENTS, "--output", str(Path(folder) / "new"), *fixed],
            "overview": ["overview", *DOCUMENTS, "--html", str(Path(folder) / "o.html"), *fixed],
            "evaluate cluster": ["evaluate", "cluster", "--data", str(labels), *fixed],
        }
        found: dict[str, list[float]] = {name: [] for name in (*FLOORS, *commands)}
        for command in commands.values():
            # Compiles what it imports.
            seconds(COMMAND, *command, environment=environment)
        for _ in range(options.repeats):
            for name, code in FLOORS.items():
                found[name].append(seconds(FLOOR.format(code), environment=environment))
            for name, command in commands.items():
                found[name].append(seconds(COMMAND, *command, environment=environment))
    lines = [
        "# Processor seconds until a command's model first runs",
        "",
        f"`python benchmarks/starting.py --repeats {options.repeats}`",
        "",
        describe_machine(),
        "",
        f"Medians of {options.repeats} runs in turn, user and system time of the process; least and most in brackets.",
        "",
        "| | seconds |",
        "|---|---|",
    ]
    for name, values in found.items():
        label = (
            name if name in FLOORS else f"`graphdoc {name}`" if " an " not in name else "`graphdoc search` of an index"
        )
        lines.append(f"| {label} | {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}) |")
    write_result("starting", "\n".join(lines))


if __name__ == "__main__":
    main()
