"""What an index takes by the passage: disk, processor time to write and maintain, time of a search.

``python benchmarks/index_size.py --engine lancedb --passages 20000``

Nothing is encoded: vectors of 384 numbers lie around 2,000 centres, and texts are words of this repository's pages in
any order, 110 to a passage, with 20 passages and 4 sections in a document.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from reporting import ROOT, describe_machine, write_result

from graphdoc.registry import ENGINES, load
from graphdoc.retrieval.lance_loop import wait_for
from graphdoc.retrieval.record import FORMAT, FORMAT_VERSION
from graphdoc.retrieval.rows import DOCUMENT, PASSAGE, SECTION, Sizes, key_of, schema_of, table_of
from graphdoc.retrieval.word_settings import WordSettings

WIDTH, PASSAGES, SECTIONS, WORDS, CENTRES, SEARCHES = 384, 20, 4, 110, 2000, 30
Vectors = np.ndarray[Any, Any]


def unit(vectors: Vectors) -> Vectors:
    """Vectors of unit length."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)


def rows_of(number: int, words: list[str], centres: Vectors, draw: np.random.Generator) -> Iterator[dict[str, Any]]:
    """The rows of one document."""
    id = f"d{number:08d}"
    vectors = unit(centres[draw.integers(CENTRES, size=PASSAGES)] + 0.8 * draw.standard_normal((PASSAGES, WIDTH)))
    texts = [" ".join(draw.choice(words, WORDS)) for _ in range(PASSAGES)]

    def row(level: str, place: int, **values: Any) -> dict[str, Any]:
        return {"key": key_of(id, level, place), "id": id, "level": level, "number": place, "title": id, **values}

    whole = {"document_text": "\n".join(texts), "content_hash": id, "structure": "{}", "coverage": "{}"}
    yield row(DOCUMENT, 0, document_vector=unit(vectors.mean(axis=0)), **whole)
    for place, part in enumerate(np.split(vectors, SECTIONS)):
        yield row(SECTION, place, section=place, heading="Part", document_vector=unit(part.mean(axis=0)))
    for place, (vector, text) in enumerate(zip(vectors, texts, strict=True)):
        yield row(
            PASSAGE,
            place,
            section=place * SECTIONS // PASSAGES,
            heading="Part",
            start=0,
            end=len(text),
            text=text,
            text_start=0,
            passage_vector=vector,
            encoder_vector=vector,
            share=(vector / PASSAGES).astype(np.float16),
            content_hash=f"{id} {place}",
        )


def timed(work: Callable[[], object]) -> float:
    """Processor seconds of some work."""
    start = time.process_time()
    work()
    return time.process_time() - start


def searches(find: Callable[[int], object]) -> str:
    """Median time of a search, and its processor time."""
    find(0)
    seconds, before = [], time.process_time()
    for number in range(SEARCHES):
        start = time.perf_counter()
        find(number)
        seconds.append(time.perf_counter() - start)
    cpu = (time.process_time() - before) / SEARCHES
    return f"{1000 * float(np.median(seconds)):.1f} ms, {1000 * cpu:.1f} CPU ms"


def bytes_of(folder: Path) -> int:
    """Bytes that the files of a folder take on disk."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def measure(engine: str, passages: int, folder: Path) -> dict[str, str]:
    """Fill an index and search it."""
    draw = np.random.default_rng(0)
    words = [word for page in sorted(ROOT.glob("docs/*.md")) for word in page.read_text().split() if word.isalpha()]
    centres = draw.standard_normal((CENTRES, WIDTH))
    schema = schema_of(Sizes(WIDTH, WIDTH, WIDTH))
    record = {"format": FORMAT, "format_version": FORMAT_VERSION, "similarity": "cosine"}
    store = load(ENGINES[engine]).create(str(folder), schema, record | {"words": WordSettings.of("en").to_dict()})
    writing, characters = 0.0, 0
    for start in range(0, passages // PASSAGES, 100):
        rows = [row for number in range(start, start + 100) for row in rows_of(number, words, centres, draw)]
        characters += sum(len(row.get("text", "")) for row in rows)
        table = table_of(rows, schema)
        writing += timed(lambda table=table, rows=rows: store.write(table, sorted({row["id"] for row in rows})))
    maintaining = timed(store.maintain)
    full = bytes_of(folder)
    if engine == "lancedb":
        # Versions before the last are kept for an hour.
        wait_for(store._table.optimize(cleanup_older_than=timedelta(0)))
    queries = unit(centres[:SEARCHES] + 0.8 * draw.standard_normal((SEARCHES, WIDTH)))
    asked = [" ".join(draw.choice(words, 5)) for _ in range(SEARCHES)]
    found = {
        "characters of text": f"{characters / passages:.0f}",
        "bytes on disk": f"{bytes_of(folder) / passages:,.0f}",
        "bytes right after maintenance": f"{full / passages:,.0f}",
        "CPU ms to write": f"{1000 * writing / passages:.2f}",
        "CPU ms to maintain": f"{1000 * maintaining / passages:.2f}",
        "vectors, best 200": searches(lambda number: store.by_vector(queries[number], "passage_vector", 200)),
        "words, best 1,000": searches(lambda number: store.by_words(asked[number], "text", 1_000)),
        "highest memory, MB": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:,.0f}",
    }
    for path in sorted((folder / "documents.lance" / "_indices").glob("*")):
        print(path.name, round(bytes_of(path) / passages, 1), file=sys.stderr)
    return found


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=tuple(ENGINES), default="lancedb")
    parser.add_argument("--passages", type=int, default=20_000)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        found = measure(options.engine, options.passages, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = [
        f"# What an index in {options.engine} takes",
        f"`python benchmarks/{Path(__file__).name} --engine {options.engine} --passages {options.passages}`",
        describe_machine(),
        f"{options.passages:,} passages, vectors of {WIDTH} numbers, {PASSAGES} passages and {SECTIONS} sections in a "
        f"document; load of the machine {os.getloadavg()[0]:.1f}, which lengthens times. By the passage:",
        "\n".join(["| what | |", "|---|---|", *(f"| {name} | {value} |" for name, value in found.items())]),
    ]
    write_result(f"index_size_{options.engine}", "\n\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
