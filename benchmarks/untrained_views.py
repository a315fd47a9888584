"""Which views of a pair of documents tell whether they belong together, before any training (SST, eq. 1-3 and 7-9)?

Sentences are encoded by frozen MiniLM, a view is the mean of its sentences, a pair has the highest cosine of three
views. Beside them the mean of all sentences of the field and the best partner of every sentence; of whole texts the
document vectors, the best pair of passages, the best partner of every passage, BM25 and TF-IDF.

    python benchmarks/untrained_views.py [--sets scisumm_acl wikispeedia] [--dtype bfloat16]
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import sklearn.cluster
from reporting import DATA, describe_machine, write_result
from sklearn.cluster import SpectralClustering

from graphdoc import Document, DocumentEncoder, read_documents
from graphdoc.documents.readers.pair_files import read_pair_file
from graphdoc.evaluation.baselines import tfidf_similarities
from graphdoc.evaluation.bootstrap import interval, resampled
from graphdoc.evaluation.document_ranking.corpus import RankedCorpus
from graphdoc.evaluation.document_ranking.words import bm25
from graphdoc.evaluation.pair_scores import pair_auc
from graphdoc.inference.sentences import sentence_segmenter, sentence_vectors
from graphdoc.matching.matcher import ViewDrawer
from graphdoc.matching.special_tokens import SpecialTokens
from graphdoc.matching.view_tokens import FieldTokens
from graphdoc.settings.views import ViewSettings
from graphdoc.similarity.hierarchical import SentenceSet, score_documents

Floats = npt.NDArray[np.float64]
FIELD, VIEW_TOKENS, VIEWS, RESAMPLES = 40, 256, 3, 1000

# Name of a row, and the settings of its views.
ROWS = {
    "truncated": {"sampling": "truncated", "views": 1},
    "negative": {"sampling": "negative"},
    "random": {"sampling": "random"},
    "uniform": {"sampling": "uniform"},
    "pagerank": {"sampling": "pagerank", "views": 1},
    "hard, words": {"sampling": "hard"},
    "hard, vectors": {"sampling": "hard", "subtopics": "vectors"},
    "soft, words": {"sampling": "soft"},
    "soft, vectors": {"sampling": "soft", "subtopics": "vectors"},
    "soft, words, one view": {"sampling": "soft", "views": 1},
    "soft, words, by k-means": {"sampling": "soft"},
}
BY_KMEANS = "soft, words, by k-means"
AGAINST = "truncated"


class Field:
    """A document as views are drawn of it."""

    def __init__(self, tokens: FieldTokens, texts: list[str], vectors: npt.NDArray[np.float32]) -> None:
        self.tokens, self.texts, self.vectors = tokens, texts, vectors
        self.features: dict[str, object] = {}


def scisumm_acl() -> Iterator[Document]:
    """Papers without their abstracts."""
    for paper in read_documents(DATA / "scisumm_acl/papers.jsonl.gz"):
        sections = [section for section in paper.sections if section.heading.strip().lower() != "abstract"]
        if sections:
            yield Document(paper.id, sections)


def wikispeedia() -> Iterator[Document]:
    """Articles of an encyclopedia."""
    return read_documents(DATA / "wikispeedia/articles.jsonl.gz")


SETS: dict[str, Callable[[], Iterator[Document]]] = {one.__name__: one for one in (scisumm_acl, wikispeedia)}


def fields_of(encoder: DocumentEncoder, documents: list[Document], dtype: str) -> dict[str, Field]:
    """The first sentences of documents with their vectors."""
    special, segmenter = SpecialTokens.of(encoder.tokenizer), sentence_segmenter(encoder, with_context=False)
    found = {}
    for start in range(0, len(documents), 64):
        cut = []
        for one in segmenter.segment_many(documents[start : start + 64]):
            cut.append(replace(one, passages=one.passages[:FIELD], token_ids=one.token_ids[:FIELD]))
        cut = [one for one in cut if one.passages]
        rows = sentence_vectors(encoder, cut, None, None if dtype == "float32" else dtype).numpy()
        ends = np.cumsum([len(one.passages) for one in cut])[:-1]
        for one, vectors in zip(cut, np.split(rows, ends), strict=True):
            tokens = FieldTokens.of(one.document.id, one.token_ids, None, special)
            found[one.document.id] = Field(tokens, list(one.texts), vectors)
    return found


def unit(rows: Floats) -> Floats:
    """Rows of length 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def view_scores(pairs: list[tuple[Field, Field]], name: str) -> Floats:
    """The highest cosine of the views of every pair."""
    settings = ViewSettings(view_tokens=VIEW_TOKENS, receptive_field=FIELD, **{"views": VIEWS, **ROWS[name]})
    drawer = ViewDrawer(settings, "en", VIEW_TOKENS - 2)
    if name == BY_KMEANS:
        # The package imports it when it clusters.
        sklearn.cluster.SpectralClustering = lambda number, **options: SpectralClustering(
            number, **{**options, "assign_labels": "kmeans"}
        )
    scores = []
    try:
        for pair in pairs:
            for field in pair:
                if settings.subtopics not in field.features:
                    field.features[settings.subtopics] = drawer.finder.features(field.texts, field.vectors)
            sides = [(field.tokens, field.features[settings.subtopics]) for field in pair]
            drawn = drawer.draw(*sides, range(settings.views), "matching")
            means = [
                [unit(field.vectors[view.sentences].mean(axis=0)) for field, view in zip(pair, views, strict=True)]
                for views in drawn.views
            ]
            scores.append(max(float(a @ b) for a, b in means))
    finally:
        if name == BY_KMEANS:
            sklearn.cluster.SpectralClustering = SpectralClustering
    return np.array(scores)


def mean_scores(pairs: list[tuple[Field, Field]]) -> Floats:
    """Cosines of the means of all sentences of the fields."""
    return np.array([float(np.prod([unit(one.vectors.mean(axis=0)) for one in pair], axis=0).sum()) for pair in pairs])


def maxsim_scores(pairs: list[tuple[Field, Field]]) -> Floats:
    """The best partner of every sentence, in both directions."""
    sets = [[SentenceSet.of([one.vectors], [np.zeros(len(one.vectors))]) for one in pair] for pair in pairs]
    return np.array([float(score_documents(*pair, by="flat", direction="both")[0]) for pair in sets])


def whole_scores(
    encoder: DocumentEncoder, documents: list[Document], rows: npt.NDArray[np.int64], dtype: str
) -> dict[str, Floats]:
    """Scores of pairs by their whole texts, such as a reader of all of it could use."""
    own = None if dtype == "float32" else dtype
    whole = DocumentEncoder.from_pretrained(encoder.name, dtype=own or "float32", max_passages=None)
    passages = [unit(vectors.numpy().astype(np.float64)) for _, vectors in whole.stream(documents, level="passage")]
    vectors = unit(whole.encode(documents).astype(np.float64))
    cosines = [passages[a] @ passages[b].T for a, b in rows]
    score = bm25(RankedCorpus(documents, lambda: encoder))
    asked = {place: score(place) for place in np.unique(rows).tolist()}
    return {
        "document vectors, whole texts": np.einsum("ij,ij->i", vectors[rows[:, 0]], vectors[rows[:, 1]]),
        "best pair of passages": np.array([found.max() for found in cosines]),
        "passage MaxSim": np.array([(found.max(1).mean() + found.max(0).mean()) / 2 for found in cosines]),
        "BM25, whole texts": np.array([asked[a][b] + asked[b][a] for a, b in rows.tolist()]),
        "TF-IDF, whole texts": tfidf_similarities([document.text for document in documents], rows),
    }


def resampled_aucs(labels: npt.NDArray[np.int64], scores: Floats) -> Floats:
    """AUC on the same resamples of pairs for all rows."""
    return np.array(
        [
            pair_auc(np.repeat(labels, drawn), np.repeat(scores, drawn))
            for drawn in resampled(len(labels), RESAMPLES, 0)
        ]
    )


def table_of(name: str, encoder: DocumentEncoder, dtype: str) -> str:
    """All rows on the test pairs of a set."""
    given = read_pair_file(DATA / name / "pairs_test.tsv")
    wanted = {id for pair in given for id in (pair.a, pair.b)}
    documents = [one for one in SETS[name]() if one.id in wanted]
    fields = fields_of(encoder, documents, dtype)
    known = given.among(fields, "leave_out")
    pairs, labels = [(fields[pair.a], fields[pair.b]) for pair in known], np.array([pair.label for pair in known])
    row_of = {document.id: row for row, document in enumerate(documents)}
    rows = np.array([(row_of[pair.a], row_of[pair.b]) for pair in known])
    scores = {row: view_scores(pairs, row) for row in ROWS}
    scores["mean of the 40 sentences"] = mean_scores(pairs)
    scores["sentence MaxSim"] = maxsim_scores(pairs)
    scores |= whole_scores(encoder, documents, rows, dtype)
    samples = {row: resampled_aucs(labels, found) for row, found in scores.items()}
    lines = [
        f"## {name}",
        f"{len(known):,} test pairs of {len(documents):,} documents; {len(given) - len(known):,} pairs left out, of "
        "which a document has no sentence.",
        f"| row | AUC | against {AGAINST} |\n|---|---|---|",
    ]
    for row, found in scores.items():
        low, high = interval(samples[row]) or (np.nan, np.nan)
        cells = [row, f"{pair_auc(labels, found):.3f} [{low:.3f}, {high:.3f}]", ""]
        if row != AGAINST:
            low, high = interval(samples[row] - samples[AGAINST]) or (np.nan, np.nan)
            cells[2] = f"{pair_auc(labels, found) - pair_auc(labels, scores[AGAINST]):+.3f} [{low:+.3f}, {high:+.3f}]"
        lines[-1] += f"\n| {' | '.join(cells)} |"
    print(lines[-1], flush=True)
    return "\n\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure all rows, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="precision of encoding")
    options = parser.parse_args(arguments)
    encoder = DocumentEncoder.from_pretrained("mini")
    command = shlex.join(["python", "benchmarks/untrained_views.py", *(arguments or sys.argv[1:])])
    parts = [
        "# Views of pairs, before any training",
        f"`{command}`",
        describe_machine(),
        f"`mini`, first {FIELD} sentences of a document, views of {VIEW_TOKENS} tokens a side, the highest cosine of "
        f"{VIEWS} views. Intervals: middle 95 % of {RESAMPLES:,} resamples of pairs; differences are paired.",
        *(table_of(name, encoder, options.dtype) for name in options.sets),
    ]
    print(write_result(Path(__file__).stem, "\n\n".join(parts)))


if __name__ == "__main__":
    main()
