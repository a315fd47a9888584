"""Do passages that know their document answer queries better than passages by themselves?

Frozen all-MiniLM-L6-v2. Queries are "Title. Heading" of a section, whose passages are right, and test questions of
meetings, for which the passages of the turns that answer them are. They look among the passages of all documents, and
among those of their own document. Passages by themselves, with a share of the mean of their document, after a layer of
graph attention over all passages of a document (trained on wikispeedia train articles, three seeds), and by late
chunking: windows of three passages go through the transformer at once. What was encoded is kept in the working folder.

    python benchmarks/passages_in_context.py [--work FOLDER] [--sets wikispeedia scisumm_acl qmsum] [--seeds 0 1 2]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reporting import DATA, describe_machine, write_result
from sklearn.preprocessing import normalize
from torch import Tensor, nn
from torch.nn import functional

from graphdoc import Document, DocumentEncoder, read_documents

BACKBONE = "sentence-transformers/all-MiniLM-L6-v2"
WINDOW, PER_DOCUMENT, STEPS, BATCH, RESAMPLES = 3, 4, 150, 48, 1000
SHARES = (0.2, 0.5, 0.8, 1.2)
# Documents, most of them, most passages of one and fewest sections that are asked for.
SETS: dict[str, tuple[str, int, int, int]] = {
    "train": ("wikispeedia/articles.jsonl.gz", 700, 10, 2),
    "wikispeedia": ("wikispeedia/articles.jsonl.gz", 250, 10, 2),
    "scisumm_acl": ("scisumm_acl/papers.jsonl.gz", 150, 16, 3),
    "qmsum": ("qmsum/corpus.jsonl.gz", 232, 40, 0),
}


@dataclass(frozen=True)
class Passages:
    """Passages of documents, and queries with the right ones.

    Args:
        vectors: ``(passages, hidden)``, of unit length.
        starts: first passage of every document, and the number of passages.
        queries: ``(queries, hidden)``.
        asked: document of every query.
        right: the right passages of every query.
    """

    vectors: np.ndarray
    starts: np.ndarray
    queries: np.ndarray
    asked: np.ndarray
    right: list[np.ndarray]

    @property
    def document_of(self) -> np.ndarray:
        """Document of every passage, ``(passages,)``."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


class ContextLayer(nn.Module):
    """Graph attention among all passages of a document, which begins at the passages themselves."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.own, self.others = (nn.Parameter(torch.zeros(hidden, hidden)) for _ in range(2))
        self.looks = nn.Parameter(2 * torch.eye(hidden))

    def forward(self, passages: Tensor, is_there: Tensor) -> Tensor:
        """Passages of documents, ``(documents, passages, hidden)``, of unit length."""
        logits = (passages @ self.looks @ passages.transpose(1, 2)).masked_fill(~is_there[:, None], -1e4)
        seen = logits.softmax(-1) @ passages
        return functional.normalize(passages + passages @ self.own + seen @ self.others, dim=-1)


def encoded(name: str, encoder: DocumentEncoder, work: Path) -> Passages:
    """Passages and queries of a set, made or read again."""
    path = work / f"{name}.npz"
    if not path.is_file():
        vectors, counts, texts, asked, right = [], [], [], [], []
        number = 0
        for document, queries in documents_of(name, encoder):
            (made,) = encoder.with_passage_vectors([document], show_progress=False)
            vectors.append(normalize(np.asarray(made.passage_vectors, np.float32)))
            for text, own in queries:
                texts.append(text)
                asked.append(len(counts))
                right.append(own + number)
            counts.append(len(made.passages))
            number += len(made.passages)
        work.mkdir(parents=True, exist_ok=True)
        np.savez(
            path, vectors=np.concatenate(vectors), starts=np.cumsum([0, *counts]),
            queries=normalize(encoder.encode_query(texts)), asked=np.array(asked), right=np.concatenate(right),
            rights=np.cumsum([0, *map(len, right)]),
        )  # fmt: skip
    with np.load(path) as stored:
        right = [stored["right"][a:b] for a, b in pairwise(stored["rights"].tolist())]
        return Passages(*(stored[key] for key in ("vectors", "starts", "queries", "asked")), right)


def documents_of(name: str, encoder: DocumentEncoder) -> Iterator[tuple[Document, list[tuple[str, np.ndarray]]]]:
    """Documents of a set with their queries and the right passages of each."""
    file, most, _, sections = SETS[name]
    documents = list(read_documents(DATA / file))
    draw = np.random.default_rng(0)
    questions = meeting_questions() if name == "qmsum" else {}
    part = {"train": "train", "wikispeedia": "test"}.get(name)
    found = 0
    for row in draw.permutation(len(documents)).tolist():
        document = documents[row]
        if found == most:
            return
        if part and document.metadata.get("split") != part:
            continue
        places = encoder.segment(document).passages
        of = np.array([place.section for place in places])
        if name == "qmsum":
            ends = np.array([(place.start, place.end) for place in places])
            queries = [
                (text, answering(ends, spans_of(document, turns))) for text, turns in questions.get(document.id, [])
            ]
        else:
            named = [number for number in np.unique(of).tolist() if heading(document, number)]
            if len(named) < sections:
                continue
            queries = [
                (f"{document.title}. {heading(document, number)}", np.flatnonzero(of == number))
                for number in draw.permutation(named)[:PER_DOCUMENT].tolist()
            ]
        if queries := [query for query in queries if len(query[1])]:
            found += 1
            yield document, queries


def heading(document: Document, number: int) -> str:
    """Heading of a section, unless it is the title again."""
    own = (document.sections[number].heading or "").strip()
    return "" if own.lower() == (document.title or "").strip().lower() else own


def meeting_questions() -> dict[str, list[tuple[str, list[tuple[int, int]]]]]:
    """Specific test questions of every meeting with the first and last of the turns that answer them."""
    found: dict[str, list[tuple[str, list[tuple[int, int]]]]] = {}
    for line in (DATA / "qmsum" / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if (row["kind"], row["split"]) == ("specific", "test") and row["spans"]:
            turns = [(int(first), int(last)) for first, last in row["spans"]]
            found.setdefault(row["_id"].rsplit("-", 1)[0], []).append((row["text"], turns))
    return found


def spans_of(document: Document, turns: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places of turns, each of which is a line."""
    starts = np.cumsum([0, *(len(line) + 1 for line in document.sections[0].text.split("\n"))]).tolist()
    return [
        (starts[first], starts[min(last, len(starts) - 2) + 1]) for first, last in turns if first < len(starts) - 1
    ]


def answering(places: np.ndarray, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Passages of which more than 40 characters lie in a span."""
    common = [np.minimum(places[:, 1], end) - np.maximum(places[:, 0], start) > 40 for start, end in spans]
    return np.flatnonzero(np.any(common, axis=0)) if common else np.zeros(0, int)


def late(name: str, encoder: DocumentEncoder, work: Path) -> np.ndarray:
    """Vectors of the passages of a set by late chunking, made or read again."""
    path = work / f"{name}_late.npy"
    if not path.is_file():
        cut = (encoder.segment(document) for document, _ in documents_of(name, encoder))
        parts = [late_chunks(encoder, [one.text(passage) for passage in one.passages]) for one in cut]
        np.save(path, np.concatenate(parts))
    return np.asarray(np.load(path))


@torch.inference_mode()
def late_chunks(encoder: DocumentEncoder, texts: Sequence[str]) -> np.ndarray:
    """Means of the tokens of passages that go through the transformer a few at once (Guenther et al. 2024)."""
    tokenizer: Any = encoder.tokenizer
    transformer: Any = encoder.model.passage_encoder.transformer
    vectors = []
    for first in range(0, len(texts), WINDOW):
        ids = [tokenizer(text, add_special_tokens=False)["input_ids"][:168] for text in texts[first : first + WINDOW]]
        row = [tokenizer.cls_token_id, *(token for own in ids for token in own), tokenizer.sep_token_id]
        whole = torch.tensor([row])
        tokens = transformer(input_ids=whole, attention_mask=torch.ones_like(whole)).last_hidden_state[0].float()
        parts = torch.split(tokens[1:-1], [len(own) for own in ids])
        vectors.extend(part.mean(dim=0).numpy() for part in parts)
    return np.asarray(normalize(np.stack(vectors)))


def with_mean(data: Passages, share: float) -> np.ndarray:
    """Passages with a share of the mean of their document."""
    means = normalize(np.add.reduceat(data.vectors, data.starts[:-1], axis=0))
    return np.asarray(normalize(data.vectors + share * means[data.document_of]))


def padded(data: Passages, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
    parts = [torch.from_numpy(data.vectors[data.starts[row] : data.starts[row + 1]]) for row in rows]
    there = nn.utils.rnn.pad_sequence([torch.ones(len(part), dtype=torch.bool) for part in parts], batch_first=True)
    return nn.utils.rnn.pad_sequence(parts, batch_first=True), there


def train(data: Passages, seed: int) -> ContextLayer:
    """Train a layer so that queries find the right passages of a batch, and cosines between passages are kept."""
    torch.manual_seed(seed)
    draw = np.random.default_rng(seed)
    layer = ContextLayer(data.vectors.shape[1])
    optimizer = torch.optim.AdamW(layer.parameters(), lr=5e-4, weight_decay=0.0)
    of = [np.flatnonzero(data.asked == row) for row in range(len(data.starts) - 1)]
    for _ in range(STEPS):
        rows = draw.permutation(len(of))[:BATCH].tolist()
        passages, there = padded(data, rows)
        before, after = passages[there], layer(passages, there)[there]
        chosen = [int(draw.choice(of[row])) for row in rows]
        places = np.concatenate([np.arange(data.starts[row], data.starts[row + 1]) for row in rows])
        is_right = torch.from_numpy(np.stack([np.isin(places, data.right[query]) for query in chosen]))
        logits = torch.from_numpy(data.queries[chosen]) @ after.T / 0.05
        found = logits.logsumexp(1) - logits.masked_fill(~is_right, -1e4).logsumexp(1)
        kept = (after @ after.T - before @ before.T).square().mean()
        optimizer.zero_grad()
        (found.mean() + 10 * kept).backward()
        optimizer.step()
    return layer


@torch.no_grad()
def in_context(layer: ContextLayer, data: Passages) -> np.ndarray:
    rows = range(len(data.starts) - 1)
    blocks = [padded(data, rows[first : first + 64]) for first in range(0, len(rows), 64)]
    return np.concatenate([layer(passages, there)[there].numpy() for passages, there in blocks])


def ndcg(data: Passages, vectors: np.ndarray, *, own: bool) -> np.ndarray:
    """nDCG@10 of every query, among all passages or those of its document."""
    similarity = data.queries @ vectors.T
    if own:
        similarity = np.where(data.asked[:, None] == data.document_of, similarity, -9)
    gains = 1 / np.log2(np.arange(10) + 2)
    best = np.argsort(-similarity, axis=1)[:, :10]
    shares = [
        np.isin(top, right) * gains / gains[: len(right)].sum() for top, right in zip(best, data.right, strict=True)
    ]
    return np.sum(shares, axis=1)


def cell(values: np.ndarray, reference: np.ndarray) -> str:
    """A mean, its difference to the reference, and the interval of 95 % of the difference."""
    if values is reference:
        return f"{values.mean():.3f}"
    draw, change = np.random.default_rng(0), values - reference
    means = [change[draw.integers(len(change), size=len(change))].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{values.mean():.3f} ({change.mean():+.3f} [{low:+.3f}, {high:+.3f}])"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/passages_in_context"))
    parser.add_argument("--sets", nargs="+", choices=list(SETS)[1:], default=list(SETS)[1:])
    parser.add_argument("--late", nargs="*", choices=list(SETS)[1:], default=list(SETS)[1:], help="those chunked late")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()

    def encoder_of(name: str) -> DocumentEncoder:
        return DocumentEncoder.from_backbone(
            BACKBONE, pooling="mean", projection_size=None, normalize_passages=True, graph_layers=0, readout="mean",
            max_passages=SETS[name][2], device="cpu", dtype="bfloat16",
        )  # fmt: skip

    data = {name: encoded(name, encoder_of(name), options.work) for name in ("train", *options.sets)}
    layers = [train(data["train"], seed) for seed in options.seeds]
    lines = []
    for name in options.sets:
        one = data[name]
        rows = {"passages by themselves": one.vectors}
        rows |= {f"with {share} of the mean of their document": with_mean(one, share) for share in SHARES}
        rows |= {
            f"graph trained on articles, seed {seed}": in_context(layer, one)
            for seed, layer in zip(options.seeds, layers, strict=True)
        }
        if name in options.late:
            rows["late chunking, windows of 3"] = late(name, encoder_of(name), options.work)
        for way, vectors in rows.items():
            cells = []
            for own in (False, True):
                values = ndcg(one, vectors, own=own)
                reference = values if vectors is one.vectors else ndcg(one, one.vectors, own=own)
                cells.append(cell(values, reference))
            lines.append(f"| {name} | {len(one.queries)} | {way} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    head = [
        "# Passages in context",
        "",
        "`python benchmarks/passages_in_context.py`",
        "",
        describe_machine(),
        "",
        "nDCG@10 of passages, difference to passages by themselves and its interval (95 % of 1,000 paired bootstrap "
        "resamples of queries).",
        "",
        "| set | queries | passages | among all | among those of the document |",
        "|---|---:|---|---:|---:|",
    ]
    write_result("passages_in_context", "\n".join([*head, *lines, ""]))


if __name__ == "__main__":
    main()
