"""How fast is search, and what does it cost? An index of many passages beside bare BM25 and a bare matrix product.

Passages are real texts of 100 words with drawn vectors of 384 numbers, in clusters, since encoding a million would
take hours and would not change what is measured. Queries are six words of a passage with a vector drawn alike. Every
stage is a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count as numbers_from
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from reporting import DATA, ROOT, describe_machine, write_result

from graphdoc import Document, DocumentIndex, Section, read_documents
from graphdoc.retrieval.lance import LanceStore
from graphdoc.retrieval.table import Fields, add_vectors, rows_of, schema_of, table_of
from graphdoc.retrieval.terms import word_settings
from graphdoc.segmentation.spans import Coverage, SegmentedDocument, Span
from graphdoc.segmentation.term_weights import Tokenize
from graphdoc.similarity.encoded_document import EncodedDocument

Floats = npt.NDArray[np.float32]

WIDTH, WORDS, PASSAGES_OF_DOCUMENT, PASSAGES_OF_SECTION = 384, 100, 20, 5
QUERIES, CHECKED, UPDATES = 40, 40, 50
# A multiple of the passages of a document.
DRAWN_TOGETHER = 10_000
# bm25s (extra benchmarks) holds some 10 KB a passage in memory.
MOST_BARE = 300_000
SOURCES = (
    "wikispeedia/articles.jsonl.gz", "aila2019_casedocs/corpus.jsonl.gz", "imdb/train.jsonl.gz",
    "scisumm_acl/papers.jsonl.gz", "standard_ebooks/chapters.jsonl.gz", "newsgroups20/train.jsonl.gz",
)  # fmt: skip
RECORD = {
    "format": "graphdoc index", "format_version": 5, "source": None, "similarity": "cosine",
    "search_by": "passage",
    "words": word_settings("en"), "model": {"name": "drawn", "dtype": "float32"}, "weights": "", "versions": {},
}  # fmt: skip


def texts() -> Iterator[str]:
    """Passages of the data at hand, over and over, each time cut at other words."""
    found = [DATA / name for name in SOURCES if (DATA / name).exists()] or [ROOT / "examples" / "documents"]
    for turn in numbers_from():
        for source in found:
            for document in read_documents(source):
                words = document.text.split()
                for start in range(37 * turn % WORDS, len(words) - WORDS // 2, WORDS):
                    yield " ".join(words[start : start + WORDS])


def vectors(count: int, seed: int) -> Floats:
    """Unit vectors in 2,000 clusters, whose variance falls off as that of real ones does, ``(count, 384)``."""
    drawn, start = np.empty((count, WIDTH), np.float32), 0
    for part in parts_of_vectors(count, seed):
        drawn[start : start + len(part)] = part
        start += len(part)
    return drawn


def parts_of_vectors(count: int, seed: int) -> Iterator[Floats]:
    """The same some at a time: what is written holds no more than it would of vectors that are encoded."""
    spread = (np.arange(1, WIDTH + 1) ** -0.5).astype(np.float32)
    centres = np.random.default_rng(7).standard_normal((2_000, WIDTH), np.float32) * spread
    draw = np.random.default_rng(seed)
    for start in range(0, count, DRAWN_TOGETHER):
        part = centres[draw.integers(0, len(centres), min(DRAWN_TOGETHER, count - start))]
        part += draw.standard_normal(part.shape, np.float32) * spread
        part /= np.linalg.norm(part, axis=1, keepdims=True)
        yield part


def documents(count: int, seed: int) -> Iterator[EncodedDocument]:
    """Documents of 20 passages in four sections, with a year."""
    found, number = islice(texts(), count), numbers_from()
    for part in parts_of_vectors(count, seed):
        for start in range(0, len(part), PASSAGES_OF_DOCUMENT):
            own = list(islice(found, PASSAGES_OF_DOCUMENT))
            yield encoded(next(number), own, part[start : start + len(own)])


def encoded(number: int, own: Sequence[str], passages: Floats) -> EncodedDocument:
    """A document of some passages, as if they had been encoded."""
    sections, spans = [], []
    for section, start in enumerate(range(0, len(own), PASSAGES_OF_SECTION)):
        part, place = own[start : start + PASSAGES_OF_SECTION], 0
        for text in part:
            spans.append(Span(section, place, place + len(text), 130))
            place += len(text) + 1
        sections.append(Section(" ".join(part), heading=f"Part {section}", level=1))
    document = Document(id_of(number), sections, title=own[0][:40], metadata={"year": 1900 + number % 100})
    ids = tuple((number, row, 2) for row in range(len(own)))
    terms = passages / len(own)
    segmented = SegmentedDocument(document, tuple(spans), ids, Coverage())
    weights = np.full(len(own), 1 / len(own), np.float32)
    return EncodedDocument(segmented, terms.sum(0), passages, terms, weights)


def id_of(number: int) -> str:
    """The id of a document."""
    return f"document {number:07d}"


def measured(work: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    """What some work gives, and its CPU seconds in all threads."""
    before = time.process_time()
    return work(*given), time.process_time() - before


def memory() -> int:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def rows_together(block: Sequence[EncodedDocument], fields: Fields, schema: Any, tokenize: Tokenize) -> Any:
    """The rows of some documents."""
    parts = [rows_of(one.segmented, fields) for one in block]
    for rows, one in zip(parts, block, strict=True):
        add_vectors(rows, one, one.passages, unit_length=True)
    return table_of([row for rows in parts for row in rows], schema, tokenize)


def build(place: Path, count: int) -> dict[str, float]:
    """Write an index, and maintain it."""
    begun = memory()
    store = LanceStore.create(str(place), schema_of(WIDTH, WIDTH, WIDTH), RECORD)
    fields = Fields(store.schema)
    store.add_columns(fields.admit(next(documents(1, 0)).segmented.document))
    schema = store.schema.remove_metadata()
    seconds = {"rows": 0.0, "write": 0.0, "maintain": 0.0}
    made = documents(count, 0)
    while block := list(islice(made, 4096 // PASSAGES_OF_DOCUMENT)):
        rows, took = measured(rows_together, block, fields, schema, store.tokens)
        seconds["rows"] += took
        seconds["write"] += measured(store.write, rows, [one.segmented.document.id for one in block])[1]
    seconds["maintain"] = measured(store.maintain)[1]
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    return {**seconds, "vectors": begun, "memory": memory(), "disk": size / 2**20}


def search(place: Path, count: int) -> dict[str, Any]:
    """Search in all ways: milliseconds of CPU and of the clock, and memory."""
    before_opening, index = memory(), DocumentIndex(LanceStore.open(place))
    draw = np.random.default_rng(1)
    chosen = list(islice(texts(), 0, 60_000, 1_200))
    queries = [" ".join(draw.permutation(text.split())[:6]) for text in chosen]
    drawn = vectors(len(queries), 5)
    found: dict[str, Any] = {}
    after: dict[str, int] = {}
    for passages in (0, 3):
        for by in ("vectors", "words", "hybrid"):
            cpu, clock = [], []
            for number in range(QUERIES + 5):
                # Vectors of queries are drawn, not encoded.
                index._queries._vector_of = lambda text, number=number: drawn[number]  # type: ignore
                before, start = time.process_time(), time.perf_counter()
                index.search(queries[number], by=by, passages=passages)  # type: ignore[arg-type]
                cpu.append(time.process_time() - before)
                clock.append(time.perf_counter() - start)
            after.setdefault(by, memory())
            found[f"{by}, {passages} passages"] = [1e3 * float(np.median(one[5:])) for one in (cpu, clock)]
    return {"ways": found, "before": before_opening, "vectors alone": after["vectors"], "memory": memory()}


def changed(count: int) -> tuple[list[int], Floats]:
    """The documents that are written anew, and the vectors of their passages, ``(documents, 20, 384)``."""
    chosen = np.random.default_rng(3).choice(count // PASSAGES_OF_DOCUMENT, UPDATES, replace=False)
    new = vectors(UPDATES * PASSAGES_OF_DOCUMENT, 9).reshape(UPDATES, PASSAGES_OF_DOCUMENT, WIDTH)
    return chosen.tolist(), new


def recall_new(place: Path, count: int) -> dict[str, float]:
    """The same after the change."""
    everything = vectors(count, 0)
    for number, new in zip(*changed(count), strict=True):
        everything[number * PASSAGES_OF_DOCUMENT :][:PASSAGES_OF_DOCUMENT] = new
    return recall(place, count, everything)


def recall(place: Path, count: int, everything: Floats | None = None) -> dict[str, float]:
    """How many of the nearest passages are found, beside the product with all of them."""
    store = LanceStore.open(str(place))
    everything, queries = vectors(count, 0) if everything is None else everything, vectors(CHECKED, 5)
    found = {"recall@100": _recall(store, everything, queries, 100)}
    year = np.arange(count) // PASSAGES_OF_DOCUMENT % 100
    found["recall@10, filter of 5 %"] = _recall(store, everything, queries, 10, "field_year < 1905", year < 5)
    products = []
    for query in queries:
        before = time.process_time()
        similarity = everything @ query
        np.argpartition(-similarity, 100)[:100]
        products.append(time.process_time() - before)
    return {**found, "product": 1e3 * float(np.median(products))}


def _recall(store: Any, every: Floats, queries: Floats, k: int, where: str | None = None, kept: Any = None) -> float:
    shares = []
    for query in queries:
        similarity = every @ query
        if kept is not None:
            similarity[~kept] = -2
        best = set(np.argpartition(-similarity, k)[:k].tolist())
        (got,) = store.find(store.by_vector(query, "passage_vector", k, where))
        numbered = zip(got.ids, got.passage_numbers, strict=True)
        rows = {int(id.split()[1]) * PASSAGES_OF_DOCUMENT + number for id, number in numbered}
        shares.append(len(rows & best) / k)
    return float(np.mean(shares))


def update(place: Path, count: int) -> dict[str, float]:
    """Write 50 documents of 20 passages anew, one at a time as people change them, with other vectors."""
    store = LanceStore.open(str(place))
    fields, schema = Fields(store.schema), store.schema.remove_metadata()
    words = list(islice(texts(), PASSAGES_OF_DOCUMENT))
    seconds = []
    for number, new in zip(*changed(count), strict=True):
        one = encoded(number, words, new)
        rows = rows_together([one], fields, schema, store.tokens)
        seconds.append(measured(store.write, rows, [one.segmented.document.id])[1])
        if store.state().is_search_slow:
            seconds[-1] += measured(store.admit)[1]
    return {"a document": 1e3 * float(np.mean(seconds)), "unindexed": store.state().unindexed}


def maintain(place: Path, count: int) -> dict[str, float]:
    """Bring words and vectors up to date."""
    return {"seconds": measured(LanceStore.open(str(place)).maintain)[1]}


def bare_words(place: Path, count: int) -> dict[str, float]:
    """Bare BM25 over the same passages (bm25s), without documents, offsets, filters or changes."""
    import bm25s

    found, index = list(islice(texts(), count)), bm25s.BM25()
    _, seconds = measured(lambda: index.index(bm25s.tokenize(found, stopwords="en", show_progress=False)))
    draw = np.random.default_rng(1)
    queries = [" ".join(draw.permutation(text.split())[:6]) for text in islice(texts(), 0, 60_000, 1_200)]
    took = []
    for query in queries[: QUERIES + 5]:
        tokens = bm25s.tokenize([query], stopwords="en", show_progress=False)
        took.append(measured(partial(index.retrieve, tokens, k=min(count, 1_000), show_progress=False))[1])
    return {"build": seconds, "query": 1e3 * float(np.median(took[5:])), "memory": memory()}


STAGES: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    one.__name__: one for one in (build, search, recall, recall_new, update, maintain, bare_words)
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Build, search, change, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--work", type=Path, default=Path("runs/search_speed"), help="where the index is kept")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        print(json.dumps(STAGES[options.stage](options.work, options.passages)))
        return
    shutil.rmtree(options.work, ignore_errors=True)
    found = {}
    for name, stage in (
        ("build", "build"), ("search", "search"), ("recall", "recall"), ("update", "update"), ("later", "recall_new"),
        ("search later", "search"), ("maintain", "maintain"), ("maintained", "recall_new"),
        ("search maintained", "search"), ("words", "bare_words"),
    ):  # fmt: skip
        if stage == "bare_words" and options.passages > MOST_BARE:
            continue
        found[name] = run(stage, options)
        print(name, found[name], file=sys.stderr, flush=True)
    name = f"search_speed_{options.passages}"
    print(write_result(name, "\n\n".join(report(found, options.passages))))


def run(stage: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a stage in a process of its own."""
    command = [sys.executable, __file__, "--stage", stage, "--passages", str(options.passages)]
    done = subprocess.run([*command, "--work", str(options.work)], stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def report(found: dict[str, dict[str, Any]], count: int) -> list[str]:
    """What was measured, as Markdown."""
    built, bare, exact = found["build"], found.get("words", {}), found["recall"]["product"]
    beside = {name: f"{bare[name]:,.1f} (bm25s)" if bare else "" for name in ("build", "memory")}
    rows = [
        ("rows made, CPU s", f"{built['rows']:.1f}", ""),
        ("written, CPU s", f"{built['write']:.1f}", ""),
        ("maintained (words, vectors), CPU s", f"{built['maintain']:.1f}", beside["build"]),
        ("the whole build, CPU s", f"{sum(built[part] for part in ('rows', 'write', 'maintain')):.1f}", ""),
        ("memory of the build, MB", f"{built['memory']:,} ({built['vectors']:,} before it)", ""),
        ("on disk, MB", f"{built['disk']:,.0f}", ""),
        *_ways("", found["search"], bare.get("query"), exact),
        (
            "memory of searching, MB",
            f"{found['search']['memory']:,} ({found['search']['before']:,} before the index is opened)",
            beside["memory"],
        ),
        ("the same by vectors alone, MB", f"{found['search']['vectors alone']:,}", ""),
        *((name, f"{found['recall'][name]:.4f}", "1") for name in ("recall@100", "recall@10, filter of 5 %")),
        (f"a document of {PASSAGES_OF_DOCUMENT} passages written, CPU ms", f"{found['update']['a document']:.0f}", ""),
        *_ways(f"after {UPDATES * PASSAGES_OF_DOCUMENT:,} changed passages: ", found["search later"], None, None),
        ("the same: recall@100", f"{found['later']['recall@100']:.4f}", "1"),
        ("maintained again, CPU s", f"{found['maintain']['seconds']:.1f}", ""),
        *_ways("then: ", found["search maintained"], None, None),
        ("then: recall@100", f"{found['maintained']['recall@100']:.4f}", "1"),
    ]
    lines = ["| | graphdoc | bare |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    return [
        f"# Search among {count:,} passages",
        f"`python benchmarks/search_speed.py --passages {count}`",
        describe_machine(),
        "CPU ms: median of a query, all threads together; in brackets what the clock says. Hits are documents. "
        "*Bare*: bm25s with 1,000 passages a query, and the product of a query with all vectors in NumPy with its "
        "best 100. Changed passages have new vectors; what is nearest is then reckoned with them. "
        "Writing counts its share of bringing search structures up to date.",
        "\n".join(lines),
    ]


def _ways(
    when: str, found: dict[str, Any], words: float | None, product: float | None
) -> Iterator[tuple[str, str, str]]:
    beside = {"words": words, "vectors": product}
    for way, (cpu, clock) in found["ways"].items():
        bare = beside.get(way.split(",")[0]) if way.endswith("0 passages") else None
        yield (
            f"{when}{way}, CPU ms",
            f"{cpu:.1f} ({clock:.1f})",
            "" if bare is None else f"{bare:.1f} ({cpu / bare:.1f} x)",
        )


if __name__ == "__main__":
    main()
