"""Does a search with a whole document find related ones? Articles as queries, linked articles as answers.

Beside TF-IDF of whole texts. What is encoded is shared with ``trained_retrieval.py`` (the cache of corpora), and the
index of words too where ``--work`` is the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from reporting import DATA, describe_machine, write_result
from sklearn.feature_extraction.text import TfidfVectorizer
from trained_retrieval import SETS, settings_of, test_run, weighted, word_runs

from graphdoc import Document, DocumentEncoder, read_documents
from graphdoc.corpus.stored import open_corpus
from graphdoc.evaluation import RankingTable, best_weight
from graphdoc.evaluation.trec import Qrels, Run, leave_out
from graphdoc.recipes.corpus_vectors import corpus_vectors
from graphdoc.retrieval.fusion import fused_scores
from graphdoc.retrieval.index import DocumentIndex
from graphdoc.runtime.processes import Processes
from graphdoc.runtime.progress import progress_bar
from graphdoc.training.starting_model import begin_training, load_start

NAME = "wikir_title"
MEASURES, MEASURE, DEPTH = ("nDCG@10", "MAP", "P@5", "recall@100"), "nDCG@10", 200
ROWS = {
    "tf-idf": "TF-IDF of whole texts (scikit-learn)",
    "words-documents": "60 best words, BM25 of whole documents",
    "words": "60 best words, BM25 of passages, the best three added up",
    "words-both": "60 best words, both added up",
    "vectors": "vectors of documents, untrained",
    "trained": "vectors of documents, trained on titles",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Rank, join, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("runs/trained_retrieval"), help="where the index is kept")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the corpus")
    parser.add_argument(
        "--words-alone", action="store_true", help="rank by words alone: nothing is trained or encoded"
    )
    parser.add_argument("--name", default="document_queries", help="name of the result")
    options = parser.parse_args(arguments)
    data = SETS[NAME]
    judgements, qrels, own = data.read("test")
    articles = {document.id: document for document in read_documents(DATA / data.corpus)}
    asked = {query: articles[next(iter(documents))] for query, documents in own.items() if query in judgements.queries}
    runs: dict[str, Run] = {"tf-idf": leave_out(tf_idf_run(articles, asked), own)}
    place = options.work / NAME / "words"
    if not DocumentIndex.exists(place):
        word_runs(data, place, judgements)
    index = DocumentIndex.open(place)
    for way, unit in (("words-documents", "document"), ("words", "passage"), ("words-both", "both")):
        with progress_bar(True, len(asked)) as bar:
            found: dict[str, dict[str, float]] = {}
            for query, document in asked.items():
                options_of_search = {"by": "words", "words_unit": unit, "depth": 5 * DEPTH}
                found[query] = index.scores(document, DEPTH, **options_of_search)["words"]  # type: ignore[arg-type]
                bar.update(1)
            runs[way] = leave_out(found, own)
    names = dict(ROWS)
    if not options.words_alone:
        names |= add_vectors(runs, asked, own, qrels, options.work, options.set)
    table = RankingTable.of({way: leave_out(run, own) for way, run in runs.items()}, qrels, MEASURES, against="tf-idf")
    lines = [f"| ranked by | {' | '.join(MEASURES)} | p |", f"|---|{'---|' * (len(MEASURES) + 1)}"]
    for way, scores in table.scores.items():
        means = " | ".join(f"{mean:.3f}" for mean in scores.means.values())
        p_value = table.p_values.get(way, {}).get(MEASURE)
        lines.append(f"| {names[way]} | {means} | {'' if p_value is None else f'{p_value:.4f}'} |")
    about = (
        f"{len(asked):,} articles of the test split of wikispeedia as queries, of {len(articles):,}; answers are "
        f"those linked with them in both directions. `mini`, the first {data.passages} passages of an article; words "
        f"are searched in all. p: paired permutation test of {MEASURE} against TF-IDF. Weights of sums are chosen on "
        "other queries (cross-validation)."
    )
    command = f"`python benchmarks/document_queries.py{' --words-alone' if options.words_alone else ''}`"
    parts = ["# Whole documents as queries", command, describe_machine(), about]
    print(write_result(options.name, "\n\n".join([*parts, "\n".join(lines)])))


def add_vectors(
    runs: dict[str, Run],
    asked: Mapping[str, Document],
    own: Mapping[str, Collection[str]],
    qrels: Qrels,
    work: Path,
    changes: Sequence[str],
) -> dict[str, str]:
    """Add the rankings by vectors, and those that join them with words; gives what they are."""
    # Trains where the other benchmark has not: titles of articles that are no query here, linked articles as answers.
    test_run(SETS[NAME], work / NAME / "document", "document", changes)
    for way, model in (("vectors", None), ("trained", work / NAME / "document" / "fold-1" / "model")):
        ids, embedded = document_vectors(work / NAME / f"{way}-document", model, changes)
        runs[way] = leave_out(vector_run(ids, embedded, asked), own)
    names = {}
    for words in ("words-documents", "words", "words-both", "tf-idf"):
        for way, kind in (("vectors", "untrained vectors"), ("trained", "trained vectors")):
            both = f"{words}, {way}"
            runs[f"{both}, rank"] = {
                query: fused_scores({"words": runs[words][query], "vectors": runs[way][query]}) for query in asked
            }
            names[f"{both}, rank"] = f"{ROWS[words]}, and {kind}, reciprocal rank"
            runs[f"{both}, sum"] = best_weight(runs[words], runs[way], qrels, weighted, measure=MEASURE).run
            names[f"{both}, sum"] = f"{ROWS[words]}, and {kind}, weighted sum"
    return names


def tf_idf_run(articles: Mapping[str, Document], asked: Mapping[str, Document]) -> Run:
    """Articles by the cosine of TF-IDF vectors of whole texts."""
    ids = list(articles)
    made = TfidfVectorizer(sublinear_tf=True, stop_words="english", min_df=2)
    matrix = made.fit_transform(f"{one.title}\n{one.text}" for one in articles.values())
    rows = [ids.index(document.id) for document in asked.values()]
    return dict(zip(asked, best_of(ids, (matrix[rows] @ matrix.T).toarray()), strict=True))


def vector_run(ids: Sequence[str], vectors: npt.NDArray[np.float32], asked: Mapping[str, Document]) -> Run:
    """Articles by the cosine of their vectors."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = [ids.index(document.id) for document in asked.values()]
    return dict(zip(asked, best_of(ids, unit[rows] @ unit.T), strict=True))


def best_of(ids: Sequence[str], similarity: npt.NDArray[np.floating]) -> Iterator[dict[str, float]]:
    """The best of every row by id."""
    for row in similarity:
        yield {ids[place]: float(row[place]) for place in np.argsort(-row, kind="stable")[:DEPTH].tolist()}


def document_vectors(
    folder: Path, model: Path | None, changes: Sequence[str]
) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Ids and vectors of all articles, by a trained model, or by the untrained one that training starts from."""
    settings, device = settings_of(SETS[NAME], folder, "document", 1, changes), torch.device("cpu")
    processes = Processes(device)
    if model is None:
        encoder = load_start(settings.model, device, settings.similarity, None)
        begin_training(encoder, settings.model)
    else:
        encoder = DocumentEncoder.from_pretrained(model, device="cpu", dtype="float32")
    corpus, passages = open_corpus(settings, encoder, processes, True)
    return list(corpus.ids), corpus_vectors(encoder, corpus, passages, settings.training, processes)


if __name__ == "__main__":
    main()
