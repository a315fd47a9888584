"""Which precision the transformer computes in, and what a folder of vectors makes of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError, OutputError
from graphdoc.inference import precision
from graphdoc.runtime.processes import Processes
from graphdoc.vectors.folder import Manifest, agree_on_precision
from graphdoc.vectors.writer import encode_to_disk

EncoderFactory = Callable[..., DocumentEncoder]


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
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(precision, "seconds_of", made.seconds_of)
    return made


def loaded(tiny_encoder: EncoderFactory, dtype: Any) -> DocumentEncoder:
    encoder = tiny_encoder("bert")
    return DocumentEncoder(encoder.model, encoder.tokenizer, name="tiny", device="cpu", dtype=dtype)


@pytest.mark.parametrize(("speed", "chosen"), [(2.0, "bfloat16"), (1.2, "float32")])
def test_auto_takes_bfloat16_where_it_is_clearly_faster(
    tiny_encoder: EncoderFactory, machine: Machine, caplog: pytest.LogCaptureFixture, speed: float, chosen: str
) -> None:
    machine.speed = speed
    encoder = loaded(tiny_encoder, "auto")
    encoder.graph("Clocks drift.")
    assert encoder.is_precision_open and not machine.products
    with caplog.at_level(logging.INFO, "graphdoc"):
        assert np.isfinite(encoder.encode("Clocks drift.")).all()
    assert encoder.precision == encoder.describe()["dtype"] == chosen
    assert next(encoder.model.passage_encoder.parameters()).dtype == getattr(torch, chosen)
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == (
        ["tiny computes in bfloat16"] if chosen == "bfloat16" else []
    )


def test_is_measured_once_by_threads_that_share_an_encoder(tiny_encoder: EncoderFactory, machine: Machine) -> None:
    encoder = loaded(tiny_encoder, "auto")
    with ThreadPoolExecutor(4) as threads:
        vectors = list(threads.map(encoder.encode, ["Tides rise."] * 8))
    assert machine.products == 8
    assert all(np.array_equal(one, vectors[0]) for one in vectors)


@pytest.fixture
def many(structured: list[Document]) -> list[Document]:
    return [*structured, Document.from_text("Tides rise.", id="tides"), Document.from_text("Clocks.", id="clocks")]


@pytest.mark.parametrize(("speed", "finished"), [(1.0, True), (3.0, False)])
def test_a_run_goes_on_in_the_precision_it_was_begun_in(
    tiny_encoder: EncoderFactory, machine: Machine, many: list[Document], tmp_path: Path, speed: float, finished: bool
) -> None:
    machine.speed = speed
    first = encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, shard_size=1)
    assert first.model["dtype"] == ("float32" if speed == 1 else "bfloat16")
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    # Another measurement would choose otherwise.
    machine.speed = 4.0 - speed
    (tmp_path / "shard-00001.parquet").unlink()
    if not finished:
        (tmp_path / "manifest.json").unlink()
    assert (
        encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, shard_size=1) == first == Manifest.read(tmp_path)
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole
    with pytest.raises(OutputError) as error:
        encode_to_disk(loaded(tiny_encoder, "float16"), many, tmp_path, shard_size=1)
    assert "float16" in str(error.value) and first.model["dtype"] in str(error.value)
    replaced = encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, overwrite=True)
    assert replaced.model["dtype"] == ("bfloat16" if speed == 1 else "float32")


@pytest.mark.parametrize("dtype", [None, ["float32"]])
def test_a_record_of_no_precision_is_passed_over(
    tiny_encoder: EncoderFactory, machine: Machine, many: list[Document], tmp_path: Path, dtype: Any
) -> None:
    encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path)
    path = tmp_path / "manifest.json"
    values = json.loads(path.read_text())
    values["model"]["dtype"] = dtype
    path.write_text(json.dumps(values))
    with pytest.raises(OutputError) as error:
        encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path)
    assert "dtype" in str(error.value) and repr(dtype) in str(error.value)


def test_processes_take_what_the_first_one_measured(
    tiny_encoder: EncoderFactory, machine: Machine, tmp_path: Path
) -> None:
    first, second = loaded(tiny_encoder, "auto"), loaded(tiny_encoder, "auto")
    exchanged: list[list[Any]] = []

    class First:
        is_first = True

        def gather(self, value: Any) -> list[Any]:
            exchanged.append([value, value if value is True else None])
            return exchanged[-1]

    class Second:
        is_first = False

        def gather(self, value: Any) -> list[Any]:
            given = exchanged.pop(0)
            assert value == given[1]
            return given

    machine.speed = 3.0
    agree_on_precision(first, tmp_path, cast(Processes, First()), overwrite=False)
    machine.speed = 1.0
    agree_on_precision(second, tmp_path, cast(Processes, Second()), overwrite=False)
    assert first.precision == second.precision == "bfloat16"
    assert next(second.model.passage_encoder.parameters()).dtype == torch.bfloat16
    assert machine.products == 8 and not exchanged


def test_unknown_precisions(tiny_encoder: EncoderFactory, mini: DocumentEncoder) -> None:
    for dtype in ("int8", None, torch.bfloat16):
        with pytest.raises(ModelError) as error:
            loaded(tiny_encoder, dtype)
        assert repr(dtype) in str(error.value)
    with pytest.raises(ModelError, match="'auto'"):
        mini.encode("Tides rise.", dtype="auto")  # type: ignore[arg-type]
