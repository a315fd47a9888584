"""How many files of graphdoc do its three main paths enter: encoding two texts, a training step, a query?

A file is entered where one of its functions is called; imports do not count, since every path is gone once before.

    python benchmarks/entered_files.py [--names]
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import graphdoc
from graphdoc import Document, DocumentEncoder, Section
from graphdoc.losses import InfoNCELoss
from graphdoc.retrieval.index import DocumentIndex
from graphdoc.sampling import SubDocuments
from graphdoc.trainer import Trainer
from graphdoc.training.loop import TrainingLoop

ROOT = Path(graphdoc.__file__).parent
TEXTS = ["Rice is polished, soaked and steamed.", "The tide came over the wall twice in one winter."]


class Entered:
    """The files, the functions and the depth of the stack that calls reach."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.deepest = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A context in which calls are counted, in all threads."""
        getattr(threading, "setprofile_all_threads", threading.setprofile)(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(str(ROOT)):
            return
        self.functions.add((frame.f_code.co_filename, frame.f_code.co_qualname))
        depth, caller = 0, frame
        while caller is not None:
            depth += caller.f_code.co_filename.startswith(str(ROOT))
            caller = caller.f_back  # type: ignore[assignment]
        self.deepest = max(self.deepest, depth)

    @property
    def files(self) -> list[str]:
        """The files, by their place in the package."""
        return sorted({str(Path(file).relative_to(ROOT)) for file, _ in self.functions})


def called_twice(work: Callable[[], object]) -> Entered:
    """What the second call of a function enters."""
    work()
    entered = Entered()
    with entered.watched():
        work()
    return entered


def training_step(folder: str) -> Entered:
    """What the second step of a run enters, from the end of the first one on."""
    entered, finish, watched = Entered(), TrainingLoop._finish_step, []

    def noted(loop: TrainingLoop, *arguments: Any, **options: Any) -> None:
        finish(loop, *arguments, **options)
        if watched:
            watched.pop().__exit__(None, None, None)
        elif not entered.functions:
            watched.append(entered.watched())
            watched[0].__enter__()

    TrainingLoop._finish_step = noted  # type: ignore[method-assign]
    texts = [[Section(f"{text} It was noted as {number}.") for text in TEXTS * 2] for number in range(8)]
    data = SubDocuments([Document(str(number), sections) for number, sections in enumerate(texts)])
    options: dict[str, Any] = {"batch_size": 2, "max_steps": 3, "device": "cpu", "show_progress_bar": False}
    start, loss = "sentence-transformers/all-MiniLM-L6-v2", InfoNCELoss(directions="both")
    Trainer(start, data, loss, output=f"{folder}/run", **options).train()
    return entered


def main() -> None:
    """Go the three paths and print what each entered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="also list the files")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    encoder = DocumentEncoder.from_pretrained("mini", device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        index = DocumentIndex.create(f"{folder}/index", encoder)
        index.update([Document.from_text(text, id=str(number)) for number, text in enumerate(TEXTS)])
        paths = {
            "encoding two texts": called_twice(lambda: encoder.encode(TEXTS)),
            "a training step": training_step(folder),
            "a text query": called_twice(lambda: index.search("steamed rice")),
        }
    for name, entered in paths.items():
        files = entered.files
        print(f"{name}: {len(files)} files, {len(entered.functions)} functions, {entered.deepest} deep")
        if options.names:
            print("  " + "\n  ".join(files))


if __name__ == "__main__":
    main()
