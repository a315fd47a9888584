"""How long does it take to find the subtopics of pairs and to draw three views of each, on one core?

Pairs of real documents, cut to so many sentences. Beside it the time of scikit-learn's spectral clustering of the same
matrices alone, which nothing that uses it can be faster than. Times are those of the processor, so that other programs
on the machine do not count.

    python benchmarks/drawing_views.py [--pairs 10000] [--sentences 40]
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from reporting import DATA, describe_machine, write_result
from sklearn.cluster import SpectralClustering
from threadpoolctl import threadpool_limits

from graphdoc import DocumentEncoder, read_documents
from graphdoc.inference.sentences import sentence_segmenter
from graphdoc.matching.matcher import ViewDrawer
from graphdoc.matching.special_tokens import SpecialTokens
from graphdoc.matching.view_tokens import FieldTokens
from graphdoc.settings.views import ViewSettings
from graphdoc.subtopics.clustering import CONNECTION, number_of_subtopics

Side = tuple[FieldTokens, list[str], object]


def sides_of(sentences: int, documents: int, drawer: ViewDrawer) -> tuple[list[Side], float]:
    """Documents of at least so many sentences, and the seconds that their terms take, each."""
    encoder = DocumentEncoder.from_pretrained("mini")
    special, segmenter = SpecialTokens.of(encoder.tokenizer), sentence_segmenter(encoder, with_context=False)
    found, seconds = [], 0.0
    for document in read_documents(DATA / "wikispeedia/articles.jsonl.gz"):
        one = segmenter.segment(document)
        if len(one.passages) < sentences:
            continue
        tokens = FieldTokens.of(document.id, one.token_ids, sentences, special)
        texts = list(one.texts[:sentences])
        start = time.process_time()
        features = drawer.finder.features(texts)
        seconds += time.process_time() - start
        found.append((tokens, texts, features))
        if len(found) == documents:
            break
    return found, seconds / len(found)


def bare_clustering(drawer: ViewDrawer, pairs: list[tuple[Side, Side]]) -> float:
    """Seconds a pair of the library's clustering alone, of the same matrices."""
    matrices = [drawer.finder.similarity(first[2], second[2]) + CONNECTION for first, second in pairs]
    start = time.process_time()
    for matrix in matrices:
        model = SpectralClustering(
            number_of_subtopics(len(matrix), drawer.settings.cluster_size),
            affinity="precomputed",
            assign_labels="cluster_qr",
            random_state=0,
        )
        model.fit(matrix)
    return (time.process_time() - start) / len(pairs)


def main(arguments: list[str] | None = None) -> None:
    """Draw, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--sentences", type=int, nargs="+", default=[40, 200])
    parser.add_argument("--documents", type=int, default=300)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    command = shlex.join(["python", "benchmarks/drawing_views.py", *(arguments or sys.argv[1:])])
    lines = [
        "# Finding subtopics and drawing views",
        f"`{command}`",
        describe_machine(),
        "Pairs of articles of `wikispeedia`, subtopics by words, three soft views of 256 tokens a side; "
        "time of the processor, one thread.",
        "| sentences | pairs | terms of a document | a pair | the clustering alone | ratio | all pairs |\n"
        "|---|---|---|---|---|---|---|",
    ]
    with threadpool_limits(1):
        for sentences in options.sentences:
            settings = ViewSettings(receptive_field=sentences)
            drawer = ViewDrawer(settings, "en", settings.view_tokens - 2)
            sides, terms = sides_of(sentences, options.documents, drawer)
            draw = np.random.default_rng(0)
            count = options.pairs if sentences <= 40 else options.pairs // 10
            chosen = [(sides[a], sides[b]) for a, b in draw.integers(len(sides), size=(count, 2)).tolist()]
            bare = bare_clustering(drawer, chosen[: count // 10])
            start = time.process_time()
            for first, second in chosen:
                drawer.draw((first[0], first[2]), (second[0], second[2]), range(3), "training")
            seconds = time.process_time() - start
            cells = (
                f"2 x {sentences}", f"{count:,}", f"{1000 * terms:.2f} ms", f"{1000 * seconds / count:.2f} ms",
                f"{1000 * bare:.2f} ms", f"{seconds / count / bare:.2f}", f"{seconds:.0f} s",
            )  # fmt: skip
            lines[-1] += f"\n| {' | '.join(cells)} |"
            print(lines[-1].splitlines()[-1], flush=True)
    print(write_result(Path(__file__).stem, "\n\n".join(lines)))


if __name__ == "__main__":
    main()
