"""Do checkpoints of an earlier version give the same vectors today?

The earlier version stands in a worktree of this repository. It trains small models by its own commands: pretrained
with a graph, with the mean of passages and with low-rank updates; on pairs, above a frozen encoder and with a graph.
Then both versions load these checkpoints, and `mini`, and encode the same documents at three levels, in turns; each in
a process of its own, on one thread. Trainings that are finished are not run again.

    python benchmarks/same_vectors.py [--revision 668a6ff] [--repeats 3] [--work FOLDER]

An early version needs a library that today's does not: `--also FOLDER` names a folder of packages for it alone, such
as `pip install --target FOLDER jsonargparse` makes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from reporting import DATA, ROOT, describe_machine, write_result

from graphdoc import read_documents
from graphdoc.runtime.files import write_text

EXAMPLES = ROOT / "examples"
QUICKSTART = ("pretrain", "--config", "configs/pretrain/quickstart.yaml")
FROM_PAIRS = [
    "groups.by=pairs",
    f"groups.file={EXAMPLES / 'same-topic.tsv'}",
    "groups.smallest=2",
    "validation.pairs=null",
    "corpus.leave_out_splits=[]",
]
# The command, its configuration of that time, and the settings that differ.
TRAININGS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "pretrained": (QUICKSTART, []),
    "pretrained, mean": (QUICKSTART, ["model.settings.graph_layers=0", "model.settings.readout=mean"]),
    "low-rank": (QUICKSTART, ["model.tune=lora"]),
    "own pairs": (
        ("finetune", "compare", "--config", "configs/finetune/own_pairs.yaml"),
        [*FROM_PAIRS, "training.batch_size=8"],
    ),
    "graph": (
        ("finetune", "compare", "--config", "configs/finetune/graph_compare.yaml"),
        [*FROM_PAIRS, "training.batch_size=8"],
    ),
}
LEVELS = ("document", "section", "passage")

# Run under either version, so they use only what both have. Words beside `mini` came later and are left out.
BEGIN = """
import json, sys, tempfile, time
import numpy as np, torch
from graphdoc import Document, DocumentEncoder, Section
torch.set_num_threads(1)

def load(folder):
    encoder = DocumentEncoder.from_pretrained(folder, device="cpu", dtype="float32")
    if getattr(encoder.model, "lexical", None) is None:
        return encoder
    return DocumentEncoder.from_pretrained(folder, device="cpu", dtype="float32", lexical=None)

documents = []
for line in open(sys.argv[1], encoding="utf-8"):
    row = json.loads(line)
    sections = tuple(Section(one["text"], one["heading"]) for one in row["sections"])
    documents.append(Document(row["id"], sections, title=row["title"]))
"""
ENCODE = f"""{BEGIN}
arrays = {{}}
for name, folder in json.loads(sys.argv[2]).items():
    encoder = load(folder)
    for level in ("document", "section", "passage"):
        vectors = encoder.encode(documents, level=level)
        arrays[name + "/" + level] = vectors if level == "document" else np.concatenate(vectors)
np.savez(sys.argv[3], **arrays)
"""
# The seconds of a kind of work are the least of three times: what else the machine does only adds to them.
TIME = f"""{BEGIN}
encoder = load("mini")
texts = [section.text for document in documents for section in document.sections if section.text]
short = [" ".join(text.split()[:20]) for text in texts][:256]
seconds = {{}}

def measure(name, work):
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    seconds[name] = min(times)

def to_disk():
    with tempfile.TemporaryDirectory() as folder:
        encoder.encode_to_disk([Document(str(n), (Section(text),)) for n, text in enumerate(short)], folder + "/new")

encoder.encode(documents[0])
measure("segmentation", lambda: [encoder.segment(document) for document in documents * 3])
measure("documents", lambda: encoder.encode(documents))
measure("short texts", lambda: encoder.encode(short))
measure("one short text at a time", lambda: [encoder.encode(text) for text in short[:64]])
measure("one document at a time", lambda: [encoder.encode(document) for document in documents[:6]])
measure("to disk", to_disk)
print(json.dumps(seconds))
"""


class Version:
    """One version of the code, as commands run it."""

    def __init__(self, folder: Path, also: Path | None = None) -> None:
        path = [str(folder), *([] if also is None else [str(also.resolve())])]
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }

    def run(self, *arguments: str) -> str:
        """Run an interpreter in the folder of the version and return what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            raise SystemExit(f"{self.folder}: {' '.join(arguments)[:200]} ended with {done.returncode}")
        return done.stdout

    def train(self, name: str, texts: Path, work: Path) -> Path:
        """Train a model of that version, unless that was done; the folder of the model."""
        run = work / name.replace(", ", "_").replace(" ", "_")
        if not (run / "model").is_dir():
            command, settings = TRAININGS[name]
            everywhere = ("training.epochs=2", "training.loading_processes=0", f"corpus.source={texts}")
            self.run("-m", "graphdoc", *command, *settings, *everywhere, f"output={run}")
        return run / "model"

    def encode(self, texts: Path, models: dict[str, str], target: Path) -> None:
        """Encode the texts by the models into an archive of arrays."""
        self.run("-c", ENCODE, str(texts), json.dumps(models), str(target))

    def measure(self, texts: Path) -> dict[str, float]:
        """Processor seconds of kinds of work by `mini`."""
        return dict(json.loads(self.run("-c", TIME, str(texts)).splitlines()[-1]))


def write_texts(path: Path, articles: int) -> int:
    """Write the example documents, and articles where the data is, as both versions read them; how many."""
    documents = list(read_documents(EXAMPLES / "documents"))
    source = DATA / "wikispeedia" / "articles.jsonl.gz"
    if source.exists():
        documents += islice(read_documents(source), articles)
    rows = [
        {
            "id": one.id,
            "title": one.title,
            "sections": [{"heading": section.heading, "text": section.text} for section in one.sections],
        }
        for one in documents
    ]
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    return len(rows)


def differences(before: Path, after: Path) -> dict[str, float]:
    """Largest difference of every array, as a part of its largest number."""
    with np.load(before) as old, np.load(after) as new:
        return {name: float(np.abs(old[name] - new[name]).max() / np.abs(old[name]).max()) for name in old.files}


def compared(before: Sequence[dict[str, float]], after: Sequence[dict[str, float]]) -> Iterator[str]:
    """A row for every kind of work: seconds before and after, and their ratio."""
    for name in before[0]:
        old, new = (np.array([one[name] for one in runs]) for runs in (before, after))
        yield f"| {name} | {np.median(old):.3f} | {np.median(new):.3f} | {np.median(new / old):.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revision", default="668a6ff", help="the earlier version")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--articles", type=int, default=20, help="Wikipedia articles beside the example documents")
    parser.add_argument("--also", type=Path, help="folder of packages that the earlier version needs")
    parser.add_argument("--work", type=Path, default=Path("runs/same_vectors"))
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    earlier = work / "earlier"
    if not earlier.is_dir():
        subprocess.run(["git", "worktree", "add", "--detach", earlier, options.revision], cwd=ROOT, check=True)
    old, new = Version(earlier, options.also), Version(ROOT)
    examples, texts = work / "examples.jsonl", work / "texts.jsonl"
    write_texts(examples, 0)
    count = write_texts(texts, options.articles)
    models = {"mini": "mini", **{name: str(old.train(name, examples, work)) for name in TRAININGS}}
    versions = {"old": old, "new": new}
    for name, version in versions.items():
        version.encode(texts, models, work / f"{name}.npz")
    found = differences(work / "old.npz", work / "new.npz")
    seconds: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    for number in range(options.repeats):
        for name in versions if number % 2 == 0 else reversed(versions):
            seconds[name].append(versions[name].measure(texts))
    cells = {name: [f"{found[f'{name}/{level}']:.1e}" for level in LEVELS] for name in models}
    lines = [
        "# Checkpoints of an earlier version",
        "",
        f"`python benchmarks/same_vectors.py --revision {options.revision} --repeats {options.repeats}`",
        "",
        describe_machine(),
        "",
        f"Models that the earlier version trained, and {count} documents encoded by it and by today's code: largest "
        "difference, as a part of the largest number. `mini` is the one of either version, today without its words.",
        "",
        "| model | document | section | passage |",
        "|---|---:|---:|---:|",
        *(f"| {name} | {' | '.join(row)} |" for name, row in cells.items()),
        "",
        f"Processor seconds of `mini` on one thread: medians of {options.repeats} processes of each version by "
        "turns, and the median of the ratios:",
        "",
        "| work | before | today | ratio |",
        "|---|---:|---:|---:|",
        *compared(seconds["old"], seconds["new"]),
        "",
    ]
    print("\n".join(lines))
    write_result("same_vectors", "\n".join(lines))


if __name__ == "__main__":
    main()
