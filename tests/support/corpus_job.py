"""What the tests of corpora run in two processes: ``corpus_job.py CHECKPOINT SOURCE CACHE OUTPUT``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from graphdoc.corpus import parts
from graphdoc.corpus.corpus import prepare_corpus
from graphdoc.corpus.source import CorpusSource, StreamingCorpus
from graphdoc.encoder import DocumentEncoder
from graphdoc.runtime.processes import Processes
from graphdoc.settings.run import CorpusSettings

torch.set_num_threads(1)
parts.PART_PASSAGES = 20


def main(backbone: str, source: str, cache: str, output: str) -> None:
    """Prepare, encode and stream a corpus, and write down what this process saw."""
    encoder = DocumentEncoder.from_backbone(backbone, device="cpu", projection_size=16, passage_words=20)
    with Processes(torch.device("cpu")) as processes:
        reads = []
        real = CorpusSource.documents
        CorpusSource.documents = lambda *arguments: reads.append(1) or real(*arguments)  # type: ignore[assignment, func-returns-value]
        corpus = prepare_corpus(
            CorpusSettings(source=source, cache=cache, least_passages=2), encoder.segmenter, processes
        )
        prepared_here = len(reads)
        encoded = []
        encode = encoder.model.encode_passages
        encoder.model.encode_passages = lambda *arguments: encoded.append(1) or encode(*arguments)  # type: ignore[assignment, func-returns-value]
        vectors = parts.prepare_passage_vectors(corpus, encoder.model, processes=processes)
        stream = StreamingCorpus(
            CorpusSettings(source=source, streaming=True, least_passages=2), encoder.segmenter, processes
        )
        # The second process gives more documents to a batch, so that it has fewer batches.
        batches = list(stream.batches(2 + processes.rank, processes))
        seen = {
            "documents": len(corpus),
            "prepared_here": prepared_here,
            "parts_here": len(encoded),
            "parts": len(list(vectors.folder.glob("part-*.npy"))),
            "sum": float(sum(abs(vectors.vectors_of(number)).sum() for number in range(len(corpus)))),
            "batches": len(batches),
            "ids": [document.id for batch in batches for document in batch],
        }
        Path(f"{output}-{processes.rank}.json").write_text(json.dumps(seen), encoding="utf-8")
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
