from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError, OutputError
from graphdoc.inference import fastest
from graphdoc.inference.fastest import Choice, Measured
from graphdoc.inference.int8 import Int8Linear, quantize
from graphdoc.runtime.processes import Processes
from graphdoc.vectors.folder import agree_on_precision
from graphdoc.vectors.store import Manifest
from graphdoc.vectors.writer import encode_to_disk

EncoderFactory = Callable[..., DocumentEncoder]


class Machine:
    """A machine whose speed in bfloat16 the test sets, in place of a measurement."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.product, self.speed, self.measured = 2.0, 1.0, 0
        compute = fastest._in_turns

        def in_turns(encoders: Any, inputs: Any) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
            self.measured += 1
            vectors = compute(encoders, inputs)[1]
            return {"float32": 1.0, "bfloat16": 1 / self.speed}, vectors

        monkeypatch.setattr(fastest, "_in_turns", in_turns)
        monkeypatch.setattr(fastest, "_product", lambda encoder, dtype: Measured(dtype, self.product))
        # Tiny random transformers are far from what people load.
        monkeypatch.setattr(fastest, "CLOSE_ENOUGH", 0.9)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def loaded(tiny_encoder: EncoderFactory, dtype: Any, **settings: Any) -> DocumentEncoder:
    encoder = tiny_encoder("bert", **settings)
    return DocumentEncoder(encoder.model, encoder.tokenizer, name="tiny", device="cpu", dtype=dtype)


class TestAuto:
    @pytest.mark.parametrize(
        ("product", "speed", "close", "chosen"),
        [
            (2.0, 2.0, 0.9, "bfloat16"),
            (2.0, 2.0, 1.1, "float32"),
            (2.0, 1.05, 0.9, "float32"),
            (2.0, 0.5, 0.9, "float32"),
            (0.5, 2.0, 0.9, "float32"),
        ],
        ids=["faster", "not close", "within the noise", "slower", "slower products"],
    )
    def test_the_fastest_that_is_close(
        self,
        tiny_encoder: EncoderFactory,
        machine: Machine,
        monkeypatch: pytest.MonkeyPatch,
        product: float,
        speed: float,
        close: float,
        chosen: str,
    ) -> None:
        machine.product, machine.speed = product, speed
        monkeypatch.setattr(fastest, "CLOSE_ENOUGH", close)
        encoder = loaded(tiny_encoder, "auto")
        encoder.graph("Clocks drift.")
        assert encoder.is_precision_open and not machine.measured
        assert np.isfinite(encoder.encode("Clocks drift.")).all()
        assert not encoder.is_precision_open
        assert encoder.precision.dtype == encoder.describe()["dtype"] == chosen
        assert next(encoder.model.passage_encoder.parameters()).dtype == getattr(torch, chosen)
        (measured,) = encoder.precision.measured
        # Where a product is slower the transformer is not run at all.
        assert machine.measured == (product > 1)
        assert measured.speed == (speed if product > 1 else product)
        assert (measured.cosine is None) == (product < 1)

    def test_is_measured_once_by_threads_that_share_an_encoder(
        self, tiny_encoder: EncoderFactory, machine: Machine
    ) -> None:
        encoder = loaded(tiny_encoder, "auto")
        with ThreadPoolExecutor(4) as threads:
            vectors = list(threads.map(encoder.encode, ["Tides rise."] * 8))
        assert machine.measured == 1
        assert all(np.array_equal(one, vectors[0]) for one in vectors)

    def test_equal_times_are_float32_and_vectors_the_same(self, mini: DocumentEncoder) -> None:
        encoder = DocumentEncoder.from_pretrained("mini", device="cpu", dtype="auto")
        np.testing.assert_array_equal(encoder.encode("Tides rise."), mini.encode("Tides rise."))
        assert encoder.precision == Choice("float32", (Measured("bfloat16", 1.0),))

    def test_a_true_measurement_of_a_transformer(self, mini: DocumentEncoder) -> None:
        encoder = mini.model.passage_encoder
        inputs = fastest._probe(mini.tokenizer, torch.device("cpu"), 2, 16)
        half = copy.deepcopy(encoder).to(torch.bfloat16)
        broken = copy.deepcopy(encoder)
        broken.transformer.encoder.layer[0].to(torch.bfloat16)
        tried = {"float32": encoder, "bfloat16": half, "float16": broken}
        seconds, vectors = fastest._in_turns(tried, inputs)
        assert seconds.keys() == vectors.keys() == {"float32", "bfloat16"}
        assert 0.999 < fastest._least_cosine(vectors["float32"], vectors["bfloat16"]) < 1

    def test_a_precision_that_gives_no_numbers_is_far(self) -> None:
        assert fastest._least_cosine(torch.ones(2, 3), torch.tensor([[1.0] * 3, [float("nan")] * 3])) == -1

    def test_the_choice_is_said_in_one_line_where_it_is_not_float32(
        self, tiny_encoder: EncoderFactory, machine: Machine, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "graphdoc"):
            assert loaded(tiny_encoder, "auto").precision.dtype == "float32"
            assert not caplog.records
            machine.speed = 3.0
            found = loaded(tiny_encoder, "auto").precision
        (message,) = [record.getMessage() for record in caplog.records]
        assert str(found) in message and "tiny" in message
        assert "bfloat16 3.00 times" in message and "cosine" in message and "\n" not in message


class TestFolders:
    """What a folder of vectors records of a precision that was measured, and how a run goes on in it."""

    @pytest.fixture
    def many(self, structured: list[Document]) -> list[Document]:
        return [*structured, Document.from_text("Tides rise.", id="tides"), Document.from_text("Clocks.", id="clocks")]

    @pytest.mark.parametrize("speed", [1.0, 3.0])
    def test_a_run_goes_on_in_the_precision_it_was_begun_in(
        self, tiny_encoder: EncoderFactory, machine: Machine, many: list[Document], tmp_path: Path, speed: float
    ) -> None:
        machine.speed = speed
        first = encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, shard_size=1)
        assert first.model["dtype"] == ("float32" if speed == 1 else "bfloat16")
        assert first.precision is not None
        assert first.precision["dtype"] == first.model["dtype"]
        assert first.precision["measured"][0]["speed"] == speed
        assert Manifest.read(tmp_path) == first
        whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        # Another measurement would choose otherwise.
        machine.speed = 4.0 - speed
        (tmp_path / "shard-00001.parquet").unlink()
        assert encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, shard_size=1) == first
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole
        assert machine.measured == 1
        with pytest.raises(OutputError) as error:
            encode_to_disk(loaded(tiny_encoder, "float16"), many, tmp_path, shard_size=1)
        assert "float16" in str(error.value) and first.model["dtype"] in str(error.value)

    def test_a_run_that_was_interrupted_goes_on_with_what_was_measured(
        self,
        tiny_encoder: EncoderFactory,
        machine: Machine,
        many: list[Document],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        machine.speed = 3.0
        undisturbed = encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path / "a", shard_size=1)

        stopped = loaded(tiny_encoder, "auto")
        stream, shards = stopped.stream, iter(range(2))

        def interrupted(*arguments: Any, **options: Any) -> Any:
            if next(shards):
                raise KeyboardInterrupt
            return stream(*arguments, **options)

        monkeypatch.setattr(stopped, "stream", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encode_to_disk(stopped, many, tmp_path / "b", shard_size=1)
        assert (tmp_path / "b" / "shard-00000.parquet").exists()
        machine.speed = 1.0
        encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path / "b", shard_size=1)
        both = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "ab"]
        assert both[0] == both[1]
        assert undisturbed.precision is not None

    def test_a_named_precision_is_not_measured(
        self, tiny_encoder: EncoderFactory, machine: Machine, many: list[Document], tmp_path: Path
    ) -> None:
        machine.speed = 3.0
        assert encode_to_disk(loaded(tiny_encoder, "int8"), many, tmp_path).precision is None
        assert encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path).model["dtype"] == "int8"
        assert not machine.measured
        again = encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, overwrite=True)
        assert again.model["dtype"] == "bfloat16"

    @pytest.mark.parametrize("dtype", [None, 3, "auto", "int3", ["float32"]])
    def test_a_record_of_no_precision_is_passed_over(
        self, tiny_encoder: EncoderFactory, machine: Machine, many: list[Document], tmp_path: Path, dtype: Any
    ) -> None:
        encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path)
        path = tmp_path / "manifest.json"
        values = json.loads(path.read_text())
        values["model"]["dtype"] = values["precision"]["dtype"] = dtype
        path.write_text(json.dumps(values))
        with pytest.raises(OutputError) as error:
            encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path)
        assert "dtype" in str(error.value) and repr(dtype) in str(error.value)

    @pytest.mark.parametrize("damage", [float("nan"), 10**400, "fast", None])
    def test_a_damaged_measurement_is_left_out(
        self, tiny_encoder: EncoderFactory, machine: Machine, many: list[Document], tmp_path: Path, damage: Any
    ) -> None:
        encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, shard_size=1)
        path = tmp_path / "manifest.json"
        values = json.loads(path.read_text())
        values["precision"]["measured"][0]["speed"] = damage
        path.write_text(json.dumps(values))
        (tmp_path / "shard-00001.parquet").unlink()
        # Another measurement would choose otherwise.
        machine.speed = 3.0
        again = encode_to_disk(loaded(tiny_encoder, "auto"), many, tmp_path, shard_size=1)
        assert again.model["dtype"] == "float32"
        assert again.precision is None

    def test_processes_take_what_the_first_one_measured(
        self, tiny_encoder: EncoderFactory, machine: Machine, tmp_path: Path
    ) -> None:
        machine.speed = 3.0
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

        agree_on_precision(first, tmp_path, cast(Processes, First()), overwrite=False)
        machine.speed = 1.0
        agree_on_precision(second, tmp_path, cast(Processes, Second()), overwrite=False)
        assert first.precision == second.precision
        assert second.precision.dtype == "bfloat16"
        assert next(second.model.passage_encoder.parameters()).dtype == torch.bfloat16
        assert machine.measured == 1 and not exchanged


class TestInt8:
    def test_a_layer_against_numpy(self) -> None:
        draw = torch.Generator().manual_seed(0)
        linear = nn.Linear(64, 32)
        x = torch.randn(5, 7, 64, generator=draw)
        # One token is a hundred times as large as the others, which one scale for all would spoil.
        x[0, 0] *= 100
        expected = x.numpy() @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
        found = Int8Linear(linear)(x).detach().numpy()
        assert found.shape == (5, 7, 32)
        error = np.linalg.norm(found - expected, axis=-1) / np.linalg.norm(expected, axis=-1)
        assert 0 < error.max() < 0.03

    def test_all_linear_layers_are_replaced_and_nothing_else(self) -> None:
        module = nn.Sequential(nn.Embedding(3, 4), nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5)))
        quantize(module)
        assert [type(child) for child in module.modules() if not list(child.children())] == [
            nn.Embedding,
            Int8Linear,
            nn.LayerNorm,
        ]

    def test_vectors_of_mini_stay_close(self, mini: DocumentEncoder, structured: list[Document]) -> None:
        encoder = DocumentEncoder.from_pretrained("mini", device="cpu", dtype="int8")
        exact, found = mini.encode(structured), encoder.encode(structured)
        cosine = (exact * found).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(found, axis=1)
        assert cosine.min() > 0.985
        assert not np.array_equal(exact, found)
        assert encoder.precision.dtype == encoder.describe()["dtype"] == "int8"

    def test_a_model_that_reads_two_texts_at_once(self, tiny_encoder: EncoderFactory) -> None:
        settings = {"pooling": "mean", "projection_size": None, "graph_layers": 0, "readout": "mean"}
        views = {"view_tokens": 24, "views": 2}
        scores = []
        for dtype in ("float32", "int8"):
            # The same weights, since the seed of the fixture is.
            made = tiny_encoder("bert", views=views, **settings)
            made.model.add_head(["different", "similar"])
            encoder = DocumentEncoder(made.model, made.tokenizer, name="tiny", device="cpu", dtype=cast(Any, dtype))
            scores.append(encoder.match("The tide rises over a wall.", "A wall of snow melts in the sun.").score)
        assert encoder.precision.dtype == "int8"
        assert scores[1] != scores[0]
        assert scores[1] == pytest.approx(scores[0], abs=1.0)

    def test_what_does_not_go_with_it(self, tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
        encoder = loaded(tiny_encoder, "int8")
        for call in (
            lambda: encoder.save_pretrained(tmp_path / "model"),
            lambda: encoder.encode("Tides rise.", dtype="bfloat16"),
            lambda: DocumentEncoder(encoder.model, encoder.tokenizer, dtype="float32"),
        ):
            with pytest.raises(ModelError) as error:
                call()
            assert "int8" in str(error.value) and "float32" in str(error.value)
        assert not (tmp_path / "model").exists()

    def test_other_weights_are_seen_in_a_folder(
        self, tiny_encoder: EncoderFactory, structured: list[Document], tmp_path: Path
    ) -> None:
        encoder = loaded(tiny_encoder, "int8")
        encode_to_disk(encoder, structured, tmp_path)
        other = tiny_encoder("bert")
        with torch.no_grad():
            for layer in other.model.passage_encoder.modules():
                if isinstance(layer, nn.Linear):
                    # The whole numbers are the same, their scale is not.
                    layer.weight[0].mul_(2)
        other = DocumentEncoder(other.model, other.tokenizer, name="tiny", device="cpu", dtype="int8")
        with pytest.raises(OutputError) as error:
            encode_to_disk(other, structured, tmp_path)
        assert "weights" in str(error.value)


@pytest.mark.parametrize("dtype", ["int4", "bf16", "", None, torch.bfloat16, 16])
def test_unknown_precisions(tiny_encoder: EncoderFactory, dtype: Any) -> None:
    with pytest.raises(ModelError) as error:
        loaded(tiny_encoder, dtype)
    assert repr(dtype) in str(error.value) and "auto" in str(error.value)


@pytest.mark.parametrize("dtype", ["int8", "auto"])
def test_precisions_to_load_in_are_none_to_compute_in(mini: DocumentEncoder, dtype: Any) -> None:
    with pytest.raises(ModelError) as error:
        mini.encode("Tides rise.", dtype=dtype)
    assert repr(dtype) in str(error.value) and "from_pretrained" in str(error.value)
