"""How well do the groups of an overview fit labels, beside other ways to group the same vectors, BERTopic among them?

Document vectors are encoded into a folder that a run goes on from, or taken from such a folder. Documents that a way
leaves out count as one group. BERTopic (UMAP to 5 dimensions, HDBSCAN with at least 10 documents, its defaults) needs
umap-learn and hdbscan, which may be installed in another environment:

    python benchmarks/overview.py --sets newsgroups20 wikispeedia --work vectors --max-passages 4 --other-python PYTHON

What the page costs a browser, for so many documents of these sets with vectors that are drawn in clusters, so that
nothing has to be encoded (playwright and a Chromium are needed):

    python benchmarks/overview.py --page 20000 --work page
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from reporting import DATA, describe_machine, write_result
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.metrics import normalized_mutual_info_score
from sklearn.preprocessing import normalize

from graphdoc import DocumentEncoder, read_documents
from graphdoc.analysis.projection import principal_components
from graphdoc.evaluation import purity
from graphdoc.overview import Overview
from graphdoc.overview.groups import find_groups
from graphdoc.overview.layout import lay_out
from graphdoc.overview.neighbours import Neighbours
from graphdoc.vectors.folder import read_vectors

SETS = {"newsgroups20": ("newsgroups20/test.jsonl.gz", None), "wikispeedia": ("wikispeedia/articles.jsonl.gz", "test")}
BERTOPIC = """
import sys, numpy as np, umap, hdbscan
vectors = np.load(sys.argv[1])
low = umap.UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=int(sys.argv[3]))
found = hdbscan.HDBSCAN(min_cluster_size=10, metric="euclidean", cluster_selection_method="eom")
np.save(sys.argv[2], found.fit(low.fit_transform(vectors)).labels_)
"""


def labelled(name: str, folder: Path, model: str, max_passages: int) -> tuple[Any, list[str]]:
    """Unit vectors and labels of the documents of a set that have one label."""
    file, split = SETS[name]
    documents = [
        document
        for document in read_documents(DATA / file, on_error="skip")
        if document.label is not None and (split is None or document.metadata.get("split") == split)
    ]
    encoder = DocumentEncoder.from_pretrained(model, dtype="bfloat16", max_passages=max_passages)
    encoder.encode_to_disk(documents, folder / name, on_error="skip")
    ids, vectors = read_vectors(folder / name)
    labels = {document.id: str(document.label) for document in documents}
    return normalize(vectors), [labels[id] for id in ids]


def bertopic(vectors: Any, python: str, seed: int) -> Any:
    """Labels of BERTopic's two steps, with its defaults, -1 for none."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "vectors.npy", Path(folder) / "labels.npy"
        np.save(source, vectors)
        subprocess.run([python, "-c", BERTOPIC, source, target, str(seed)], check=True, stderr=subprocess.DEVNULL)
        return np.load(target)


def of_overview(vectors: Any, seed: int) -> Any:
    """Labels of the groups of an overview, -1 for none."""
    labels = np.full(len(vectors), -1)
    for number, rows in enumerate(find_groups(lay_out(vectors, seed), Neighbours.of(vectors, 10))):
        labels[rows] = number
    return labels


def ways(classes: int, python: str | None) -> dict[str, Callable[[Any, int], Any]]:
    """Every way to group unit vectors, by name; those that know the number of labels say so."""

    def hdbscan(size: int, low: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
        return lambda vectors, seed: HDBSCAN(min_cluster_size=size, copy=True).fit_predict(low(vectors, seed))

    found: dict[str, Callable[[Any, int], Any]] = {"overview": of_overview}
    if python is not None:
        found["BERTopic: UMAP, HDBSCAN"] = lambda vectors, seed: bertopic(vectors, python, seed)
    found |= {
        "HDBSCAN, 50 components": hdbscan(10, lambda vectors, _: principal_components(vectors)),
        "HDBSCAN, map": hdbscan(10, lay_out),
        f"k-means, {classes} groups": lambda vectors, seed: KMeans(classes, n_init=10, random_state=seed).fit_predict(
            vectors
        ),
        f"Ward, {classes} groups": lambda vectors, _: AgglomerativeClustering(classes).fit_predict(vectors),
    }
    return found


def make_page(count: int, work: Path) -> Path:
    """The page of so many messages and articles, with drawn vectors; one that is there is kept."""
    page = work / f"page-{count}.html"
    if page.exists():
        return page
    files = ("newsgroups20/train.jsonl.gz", "newsgroups20/test.jsonl.gz", "wikispeedia/articles.jsonl.gz")
    read = itertools.chain.from_iterable(read_documents(DATA / file, on_error="skip") for file in files)
    documents = list({document.id: document for document in read}.values())[-count:]
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(60, 128))
    vectors = centres[draw.integers(0, 60, len(documents))] + draw.normal(scale=1.2, size=(len(documents), 128))
    start = time.process_time()
    overview = Overview.of_vectors([one.id for one in documents], vectors, documents)
    overview.to_html(page, name=f"{len(documents):,} documents")
    print(f"made in {time.process_time() - start:.0f} s of processor time", flush=True)
    return page


def frames(page: Path, runs: int, seconds: float = 3.0) -> list[str]:
    """A row of a table for every time that the page is opened and its map is dragged for some seconds."""
    from playwright.sync_api import sync_playwright

    lines = ["| run | load | first paint, s | drawn, s | frames a second | moves a second | CPU ms a frame |"]
    lines += ["|---:|---:|---:|---:|---:|---:|---:|"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        # Windows, tabs and the program that draws them.
        own = [one for one in psutil.Process().children(recursive=True) if "chrom" in one.name()]
        for run in range(1, runs + 1):
            view = browser.new_page(viewport={"width": 1280, "height": 900})
            view.goto(page.as_uri())
            view.wait_for_selector("#map[data-zoom]")
            drawn = view.evaluate("performance.now()") / 1000
            paint = view.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
            view.wait_for_timeout(1000)
            view.mouse.move(450, 500)
            view.mouse.down()
            view.evaluate(
                "() => { let n = 0; const count = () => { window.drawnFrames = n++; requestAnimationFrame(count); };"
                " count(); }"
            )
            processes = {*own, *(one for one in psutil.Process().children(recursive=True) if "chrom" in one.name())}
            before = sum(sum(one.cpu_times()[:2]) for one in processes if one.is_running())
            start, moves = time.perf_counter(), 0
            while (passed := time.perf_counter() - start) < seconds:
                # Round and round, farther than the layer of points reaches.
                moves += 1
                view.mouse.move(450 + 320 * np.sin(2 * passed), 500 + 320 * np.cos(2 * passed) - 320)
            shown = view.evaluate("window.drawnFrames")
            passed = time.perf_counter() - start
            spent = sum(sum(one.cpu_times()[:2]) for one in processes if one.is_running()) - before
            view.mouse.up()
            view.close()
            rates = f"{shown / passed:.0f} | {moves / passed:.0f} | {1000 * spent / max(1, shown):.0f}"
            lines.append(f"| {run} | {os.getloadavg()[0]:.1f} | {paint:.1f} | {drawn:.1f} | {rates} |")
            print(lines[-1], flush=True)
        browser.close()
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=tuple(SETS))
    parser.add_argument("--work", type=Path, required=True, help="folder of vectors")
    parser.add_argument("--model", default="mini")
    parser.add_argument("--max-passages", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--page", type=int, metavar="N", help="measure a page of N documents, and nothing else")
    parser.add_argument("--runs", type=int, default=5, help="times that the page is opened")
    parser.add_argument("--other-python", help="a Python that has umap-learn and hdbscan")
    options = parser.parse_args()
    if options.page is not None:
        options.work.mkdir(parents=True, exist_ok=True)
        page = make_page(options.page, options.work)
        print(describe_machine(), f"The page has {page.stat().st_size / 1e6:.1f} MB.", sep="\n")
        print("\n".join(frames(page.resolve(), options.runs)))
        return
    shown = " ".join(sys.argv[1:]).replace(str(options.other_python), "PYTHON").replace(str(options.work), "WORK")
    lines = ["# Groups of an overview", "", f"`python benchmarks/overview.py {shown}`", "", describe_machine(), ""]
    lines += [f"Vectors of `{options.model}`, first {options.max_passages} passages. NMI and purity with those in no"]
    lines += [f"group as one group of their own; means over {options.seeds} seeds, with the smallest and largest NMI."]
    for name in options.sets:
        vectors, labels = labelled(name, options.work, options.model, options.max_passages)
        lines += ["", f"## {name}, {len(vectors):,} documents, {len(set(labels))} labels", ""]
        lines += ["| groups by | groups | in none | NMI | purity | seconds |", "|---|---:|---:|---:|---:|---:|"]
        for way, function in ways(len(set(labels)), options.other_python).items():
            start = time.perf_counter()
            runs = [np.asarray(function(vectors, seed)) for seed in range(options.seeds)]
            seconds = (time.perf_counter() - start) / len(runs)
            nmi = [float(normalized_mutual_info_score(labels, run)) for run in runs]
            pure = np.mean([purity(labels, run) for run in runs])
            groups = np.mean([run.max() + 1 for run in runs])
            none = np.mean([(run < 0).mean() for run in runs])
            spread = f"{np.mean(nmi):.3f} ({min(nmi):.3f} to {max(nmi):.3f})"
            lines.append(f"| {way} | {groups:.0f} | {none:.0%} | {spread} | {pure:.3f} | {seconds:.0f} |")
            print(lines[-1], flush=True)
    print(write_result("overview", "\n".join(lines)))


if __name__ == "__main__":
    main()
