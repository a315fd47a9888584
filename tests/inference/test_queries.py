"""Queries, the similarity of vectors, and which precision the transformer computes in."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from forked import run
from typed import Documents, Encoders, Log, Patch

import graphdoc
from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, ModelError, OutputError, SettingsError
from graphdoc.inference import precision, segmenting
from graphdoc.inference.segmenting import MOST_WORKERS, Workers, segment_in_order
from graphdoc.runtime.processes import Processes
from graphdoc.vectors.folder import Manifest, agree_on_precision
from graphdoc.vectors.writer import encode_to_disk


@pytest.mark.parametrize("readout", ["document_node", "mean"])
def test_a_query_is_its_initial_node(tiny_encoder: Encoders, readout: str) -> None:
    """tanh(W x + b) of the pooled passage (eq. 1), which graph attention would change."""
    encoder = tiny_encoder("bert", readout=readout, graph_layers=2)
    queries = ["Clocks drift.", "The tide came over the wall twice in one winter."]
    (window,) = encoder.windows(queries)
    projection = encoder.model.projection
    weight, bias = (value.detach().numpy() for value in (projection.weight, projection.bias))
    expected = np.tanh(window.passage_vectors.numpy() @ weight.T + bias)
    found = encoder.encode_query(queries)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found - encoder.encode(queries)).max() > 1e-2
    np.testing.assert_allclose(encoder.encode_query(queries[0]), expected[0], atol=1e-5)
    file = "OpenOffice.org"  # The type of files of Org: as a document it would be refused.
    assert (encoder.encode_query(file) == encoder.encode_query(Document.from_text(file))).all()
    tensor = encoder.encode_query(queries, convert_to_tensor=True, normalize_embeddings=True)
    np.testing.assert_allclose(tensor.norm(dim=1), 1, atol=1e-6)
    assert encoder.encode_query([]).shape == (0, 16)


def test_what_is_cut_off_is_reported(tiny_encoder: Encoders, caplog: Log) -> None:
    encoder = tiny_encoder("bert", passage_tokens=20)
    long = "The tide came over the wall. " * 20
    with caplog.at_level(logging.WARNING, "graphdoc"):
        found = encoder.encode_query(["Clocks drift.", long])
    assert found.shape == (2, 16)
    (record,) = caplog.records
    assert "1 query" in record.getMessage() and "passage_tokens=20" in record.getMessage()


@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_similarity_is_the_models(tiny_encoder: Encoders, kind: str, monkeypatch: Patch) -> None:
    encoder = tiny_encoder("bert", similarity=kind)
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(3, 16)).astype(np.float32), draw.normal(size=(5, 16)).astype(np.float32)
    expected = a @ b.T
    if kind == "cosine":
        expected = expected / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    np.testing.assert_allclose(encoder.similarity(a, b), expected, atol=1e-5)
    np.testing.assert_allclose(encoder.similarity(a[0], b.tolist()), expected[:1], atol=1e-5)
    tensors = encoder.similarity(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(tensors, torch.Tensor)
    np.testing.assert_allclose(tensors, expected, atol=1e-5)
    for left, right in ((a, b[:3]), (torch.from_numpy(a), torch.from_numpy(b[:3]))):
        pairs: Any = encoder.similarity_pairwise(embeddings1=left, embeddings2=right)
        assert type(pairs) is type(left)
        np.testing.assert_allclose(pairs, np.diag(expected), atol=1e-5)
        # A single vector is a row, and no rows have no scores.
        for count, rows in ((1, 0), (1, slice(1)), (0, slice(0))):
            some: Any = encoder.similarity_pairwise(left[rows], right[rows])
            assert type(some) is type(left) and some.shape == (count,)
            np.testing.assert_allclose(some, np.diag(expected)[:count], atol=1e-5)
    many = draw.normal(size=(2, 150, 16))
    np.testing.assert_allclose(encoder.similarity_pairwise(*many), np.diag(encoder.similarity(*many)), atol=1e-12)
    texts = ["Tides rise.", "Rice is steamed for twenty minutes."]
    for encode in (encoder.encode, encoder.encode_query):
        called: Any = encode(texts, batch_size=1, convert_to_numpy=False)
        assert isinstance(called, torch.Tensor)
        np.testing.assert_allclose(called, encode(texts, batch_size=32, convert_to_numpy=True), atol=1e-5)
    assert encoder.get_sentence_embedding_dimension() == encoder.encode_document(["Tides."]).shape[1]
    for home, name, here in ((encoder, "tokenize", "segment"), (graphdoc, "SentenceTransformer", "DocumentEncoder")):
        with pytest.raises(AttributeError, match=here):
            getattr(home, name)
    assert not hasattr(graphdoc, "to")
    monkeypatch.delattr(graphdoc, "losses", raising=False)
    assert graphdoc.losses.InfoNCELoss.__module__ == "graphdoc.losses.contrastive"
    assert not encoder.similarity(np.zeros((1, 16)), b).any()
    for one, other in (("x", "y"), (None, 5), (np.zeros((2, 3)), np.zeros((2, 4))), ([], [[1.0]])):
        with pytest.raises(SettingsError):
            encoder.similarity(one, other)
    with pytest.raises(DocumentError, match="query"):
        encoder.encode_query(["fine", " "])


@pytest.fixture
def encoder(tiny_encoder: Encoders, monkeypatch: Patch) -> DocumentEncoder:
    monkeypatch.setattr(segmenting, "BLOCK_DOCUMENTS", 4)
    return tiny_encoder("bert")


def texts(count: int) -> list[dict[str, str]]:
    return [
        {"id": f"d{number}", "text": f"Tide number {number} came over the wall. " * (number % 5 + 1)}
        for number in range(count)
    ]


def test_the_same_whatever_the_workers(encoder: DocumentEncoder) -> None:
    rows = [{**row, "title": "A title", "year": 1912} for row in texts(40)]
    mixed = [encoder.segment(row) if number % 7 == 3 else row for number, row in enumerate(rows)]
    expected = list(segment_in_order(mixed, encoder.segmenter, Workers(0)))
    assert [one.document for one in expected] == [Document.from_mapping(row) for row in rows]
    assert list(segment_in_order(mixed, encoder.segmenter, Workers(2, 4))) == expected
    found = list(encoder.stream(mixed, workers=2))
    assert [one for one, _ in found] == expected
    for (_, ours), (_, theirs) in zip(found, encoder.stream(mixed, workers=0), strict=True):
        assert torch.equal(ours, theirs)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_keeps_its_document_and_ends_the_workers(encoder: DocumentEncoder, workers: int) -> None:
    rows = [*texts(30), {"id": "bare", "text": "\u200b"}, *texts(5)]
    with pytest.raises(DocumentError) as error:
        encoder.encode(rows, workers=workers)
    assert "'bare'" in str(error.value)
    assert multiprocessing.active_children() == []


def test_without_a_number_workers_suit_the_machine(monkeypatch: Patch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(32)), raising=False)
    monkeypatch.setattr("multiprocessing.get_start_method", lambda **_: "fork")
    assert Workers.on(torch.device("cpu")).count == 1
    assert Workers.on(torch.device("cuda")).count == MOST_WORKERS
    for processes, device, count in (("8", "cuda", 3), ("16", "cpu", 0)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
        assert Workers.on(torch.device(device)).count == count
    monkeypatch.setattr("multiprocessing.get_start_method", lambda **_: "spawn")
    assert Workers.on(torch.device("cuda")).count == 0
    for wrong in (-1, 1.5):
        with pytest.raises(SettingsError) as error:
            Workers.on(torch.device("cpu"), wrong)  # type: ignore[arg-type]
        assert "workers" in str(error.value) and str(wrong) in str(error.value)


PROGRAM = """
import os, sys, torch
torch.set_num_threads(2)
from graphdoc import DocumentEncoder

encoder = DocumentEncoder.from_pretrained(sys.argv[1], device="cpu")
texts = ["Rice is polished, soaked and steamed. The grains stay whole. " * 40] * 8
expected = encoder.encode(texts)
child = os.fork()
if not child:
    difference = abs(encoder.encode(texts) - expected).max()
    print(torch.get_num_threads(), difference < 1e-5, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(torch.get_num_threads())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_a_fork_encodes_after_its_parent_has_encoded_with_threads(tiny_encoder: Encoders, tmp_path: Path) -> None:
    tiny_encoder("bert").save_pretrained(tmp_path / "model")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert run(tmp_path / "program.py", tmp_path / "model", OMP_NUM_THREADS="2").stdout.split() == ["1", "True", "2"]


class Machine:
    """A machine whose speed in bfloat16 the test sets, in place of a measurement."""

    def __init__(self) -> None:
        self.speed, self.products = 1.0, 0
        self._are_exact = cycle([True, False])

    def seconds_of(self, product: Callable[[], object]) -> float:
        product()
        self.products += 1
        return 1.0 if next(self._are_exact) else 1 / self.speed


@pytest.fixture
def machine(monkeypatch: Patch) -> Machine:
    made = Machine()
    monkeypatch.setattr(precision, "seconds_of", made.seconds_of)
    return made


def loaded(tiny_encoder: Encoders, dtype: Any) -> DocumentEncoder:
    encoder = tiny_encoder("bert")
    return DocumentEncoder(encoder.model, encoder.tokenizer, name="tiny", device="cpu", dtype=dtype)


@pytest.mark.parametrize(("speed", "chosen"), [(2.0, "bfloat16"), (1.2, "float32")])
def test_auto_takes_bfloat16_where_it_is_clearly_faster(
    tiny_encoder: Encoders, machine: Machine, speed: float, chosen: str
) -> None:
    machine.speed = speed
    encoder = loaded(tiny_encoder, "auto")
    encoder.graph("Clocks drift.")
    assert encoder.is_precision_open and not machine.products
    assert np.isfinite(encoder.encode("Clocks drift.")).all()
    assert encoder.precision == encoder.describe()["dtype"] == chosen
    assert next(encoder.model.passage_encoder.parameters()).dtype == getattr(torch, chosen)


def test_is_measured_once_by_threads_that_share_an_encoder(tiny_encoder: Encoders, machine: Machine) -> None:
    encoder = loaded(tiny_encoder, "auto")
    with ThreadPoolExecutor(4) as threads:
        vectors = list(threads.map(encoder.encode, ["Tides rise."] * 8))
    assert machine.products == 8
    assert all(np.array_equal(one, vectors[0]) for one in vectors)


@pytest.fixture
def many(structured: Documents) -> list[Document]:
    return [*structured, Document.from_text("Tides rise.", id="tides"), Document.from_text("Clocks.", id="clocks")]


@pytest.mark.parametrize(("speed", "finished"), [(1.0, True), (3.0, False)])
def test_a_run_goes_on_in_the_precision_it_was_begun_in(
    tiny_encoder: Encoders, machine: Machine, many: Documents, tmp_path: Path, speed: float, finished: bool
) -> None:
    machine.speed = speed
    first = encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, shard_size=1)
    assert first.model["dtype"] == ("float32" if speed == 1 else "bfloat16")
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    # Another measurement would choose otherwise.
    machine.speed = 4.0 - speed
    (tmp_path / "shard-00001.parquet").unlink()
    if not finished:
        (tmp_path / ".manifest.json").unlink()
    assert (
        encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, shard_size=1) == first == Manifest.read(tmp_path)
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole
    with pytest.raises(OutputError) as error:
        encode_to_disk(loaded(tiny_encoder, "float16"), many, tmp_path, shard_size=1)
    assert "float16" in str(error.value) and first.model["dtype"] in str(error.value)
    replaced = encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, overwrite=True)
    assert replaced.model["dtype"] == ("bfloat16" if speed == 1 else "float32")
    # A record of no precision is passed over.
    values = json.loads((tmp_path / ".manifest.json").read_text())
    values["model"]["dtype"] = ["float32"]
    (tmp_path / ".manifest.json").write_text(json.dumps(values))
    with pytest.raises(OutputError, match="dtype"):
        encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path)


def test_processes_take_what_the_first_one_measured(tiny_encoder: Encoders, machine: Machine, tmp_path: Path) -> None:
    first, second = loaded(tiny_encoder, "auto"), loaded(tiny_encoder, "auto")
    taken: list[Any] = []

    class Shared:
        def gather(self, value: Any) -> list[Any]:
            return [value, True]

        def from_first(self, function: Any) -> Any:
            taken.append(taken[0] if taken else function())
            return taken[0]

    machine.speed = 3.0
    agree_on_precision(first, tmp_path, cast(Processes, Shared()), overwrite=False)
    machine.speed = 1.0
    agree_on_precision(second, tmp_path, cast(Processes, Shared()), overwrite=False)
    assert first.precision == second.precision == "bfloat16"
    assert next(second.model.passage_encoder.parameters()).dtype == torch.bfloat16
    assert machine.products == 8 and taken == ["bfloat16"] * 2


def test_unknown_precisions(tiny_encoder: Encoders, mini: DocumentEncoder) -> None:
    for dtype in ("int8", None, torch.bfloat16):
        with pytest.raises(ModelError) as error:
            loaded(tiny_encoder, dtype)
        assert repr(dtype) in str(error.value)
    with pytest.raises(ModelError, match="'auto'"):
        mini.encode("Tides rise.", dtype="auto")  # type: ignore[arg-type]
