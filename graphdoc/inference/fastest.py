"""Measuring which precision of the transformer is the fastest on this machine and close enough to fp32."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ..errors import ModelError
from ..modeling.passage_encoder import PassageEncoder
from ..segmentation.context import short_token_ids
from .int8 import is_int8, quantize
from .levels import as_numpy
from .precision import PRECISIONS, LoadPrecision, inference

logger = logging.getLogger("graphdoc.precision")

# Least cosine of a passage vector to that in fp32.
CLOSE_ENOUGH = 0.999
# Below this cosine int8 is warned of.
FAR = 0.99
# A gain below it is within the noise of a short measurement.
LEAST_GAIN = 1.1
# Passages and tokens of a measurement: little work for a CPU, and enough to fill an accelerator.
CPU_PROBE, ACCELERATOR_PROBE = (4, 64), (64, 128)
TURNS = 2
CANDIDATES = {"cpu": ("bfloat16",), "cuda": ("bfloat16", "float16"), "mps": ("float16",)}

_TEXT = """
Rice is polished, soaked and steamed; the grains must stay whole, and dry enough for the mould to grow in. Two clocks
never agree for long, so a log gives every entry a number, and all machines tell the same story. The tide came over the
wall twice in one winter, and marsh grass slowed the waves more than bare mud had done. Letters became numbers when the
telegraph needed them to be short: E is a single dot, and Q has four signs. In 1893 a committee counted 2,741 stems on
one square metre of the new land, wrote "not enough" into the margin, and went home before the water rose again.
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """A precision beside fp32, on a sample of passages.

    Args:
        dtype: the precision.
        speed: how many times as fast as fp32 it is.
        cosine: least cosine of a passage vector to that in fp32; None where a matrix product alone was measured, since
            it was no faster.
    """

    dtype: str
    speed: float
    cosine: float | None = None

    @classmethod
    def of(cls, dtype: str, seconds: tuple[float, float], cosine: float | None = None) -> Measured:
        """From the seconds in fp32 and in the precision."""
        speed = seconds[0] / max(seconds[1], 1e-9)
        return cls(dtype, float(f"{speed:.3g}"), None if cosine is None else round(cosine, 5))

    def __str__(self) -> str:
        how = "a matrix product" if self.cosine is None else f"cosine {self.cosine:.4f}"
        return f"{self.dtype} {self.speed:.2f} times as fast as float32, {how}"


@dataclass(frozen=True, slots=True)
class Choice:
    """A precision and what was measured beside it.

    Args:
        dtype: the precision.
        measured: what was measured; empty where nothing had to be.
    """

    dtype: str
    measured: tuple[Measured, ...] = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Choice:
        """A choice of its values by name, as :func:`dataclasses.asdict` gives them.

        Raises:
            ValueError: a speed or a cosine is no finite number.
        """
        measured = tuple(Measured(**one) for one in values["measured"])
        for one in measured:
            numbers = [one.speed] if one.cosine is None else [one.speed, one.cosine]
            # Neither infinite nor no number at all, which a manifest cannot hold.
            if not all(isinstance(number, int | float) and abs(number) < 1e12 for number in numbers):
                raise ValueError(f"speed {one.speed!r} and cosine {one.cosine!r} are no numbers")
        return cls(values["dtype"], measured)

    def __str__(self) -> str:
        return f"{self.dtype} ({'; '.join(map(str, self.measured))})" if self.measured else self.dtype


def with_precision(
    encoder: PassageEncoder, tokenizer: PreTrainedTokenizerBase, dtype: LoadPrecision, name: str, longest: int
) -> tuple[PassageEncoder, Choice]:
    """Bring a passage encoder in fp32 to a precision.

    Args:
        encoder: the passage encoder, where it will run.
        tokenizer: its tokenizer.
        dtype: the precision; ``auto`` for the one that a short measurement finds fastest at a cosine of
            :data:`CLOSE_ENOUGH`, float32 where none is clearly faster; ``int8`` for dynamic whole numbers on a CPU.
        name: name of the model, for messages.
        longest: most tokens of a passage.

    Returns:
        The passage encoder, and the choice.

    Raises:
        ModelError: it cannot compute in this precision.
    """
    if dtype != "int8" and is_int8(encoder):
        raise ModelError(f"the weights of {name} are int8; load it again with dtype={dtype!r}")
    if dtype in PRECISIONS:
        return encoder.to(PRECISIONS[dtype]), Choice(dtype)
    encoder.to(torch.float32)
    device = next(encoder.parameters()).device
    passages, tokens = CPU_PROBE if device.type == "cpu" else ACCELERATOR_PROBE
    inputs = _probe(tokenizer, device, passages, min(tokens, longest))
    if dtype == "int8":
        return _int8(encoder, inputs, name)
    encoder, choice = _fastest(encoder, inputs)
    if choice.dtype != "float32":
        logger.info("%s computes in %s", name, choice)
    return encoder, choice


def seconds_of(function: Callable[[], object]) -> float:
    """How long a call takes; measurements look at the clock here alone."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def _fastest(encoder: PassageEncoder, inputs: dict[str, Tensor]) -> tuple[PassageEncoder, Choice]:
    device = inputs["input_ids"].device.type
    measured: list[Measured] = []
    tried = {"float32": encoder}
    for dtype in CANDIDATES.get(device, ("bfloat16",)):
        # Without instructions for it a precision is many times slower on a CPU, which one product shows.
        product = _product(encoder, dtype) if device == "cpu" else None
        if product is not None and product.speed < LEAST_GAIN:
            measured.append(product)
            continue
        tried[dtype] = copy.deepcopy(encoder).to(PRECISIONS[dtype])
    if len(tried) == 1:
        return encoder, Choice("float32", tuple(measured))
    seconds, vectors = _in_turns(tried, inputs)
    best, best_speed = "float32", 1.0
    for dtype in [dtype for dtype in seconds if dtype != best]:
        cosine = _least_cosine(vectors["float32"], vectors[dtype])
        found = Measured.of(dtype, (seconds["float32"], seconds[dtype]), cosine)
        measured.append(found)
        if cosine >= CLOSE_ENOUGH and found.speed >= LEAST_GAIN * best_speed:
            best, best_speed = dtype, found.speed
    return tried[best], Choice(best, tuple(measured))


def _product(encoder: PassageEncoder, dtype: str) -> Measured:
    """A matrix product as large as one of a feed-forward layer."""
    config = encoder.transformer.config
    wide = int(config.hidden_size)
    x, weight = torch.randn(256, wide, generator=torch.Generator().manual_seed(0)), torch.ones(4 * wide, wide)
    fast = x.to(PRECISIONS[dtype]), weight.to(PRECISIONS[dtype])
    least = [float("inf")] * 2
    for _ in range(TURNS + 1):
        for place, (a, b) in enumerate(((x, weight), fast)):
            least[place] = min(least[place], seconds_of(partial(torch.nn.functional.linear, a, b)))
    return Measured.of(dtype, (least[0], least[1]))


def _in_turns(
    encoders: dict[str, PassageEncoder], inputs: dict[str, Tensor]
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The least seconds that each encoder takes for the passages, and the vectors it gives."""
    seconds: dict[str, float] = {}
    vectors: dict[str, Tensor] = {}
    for turn in range(TURNS + 1):
        for dtype, encoder in encoders.items():
            if turn and dtype not in vectors:
                continue
            try:
                taken = seconds_of(partial(_keep, vectors, dtype, encoder, inputs))
            except (RuntimeError, NotImplementedError, TypeError):
                # Not every transformer computes in every precision.
                if dtype == "float32":
                    raise
                continue
            # The first turn prepares more than it computes.
            if turn:
                seconds[dtype] = min(seconds.get(dtype, taken), taken)
    return seconds, vectors


def _keep(kept: dict[str, Tensor], dtype: str, encoder: PassageEncoder, inputs: dict[str, Tensor]) -> None:
    kept[dtype] = _vectors(encoder, inputs)


def _int8(encoder: PassageEncoder, inputs: dict[str, Tensor], name: str) -> tuple[PassageEncoder, Choice]:
    device = inputs["input_ids"].device
    if device.type != "cpu":
        raise ModelError(f"dtype 'int8' of {name} computes on a CPU, not on {device}; use bfloat16, or device='cpu'")
    exact = _vectors(encoder, inputs)
    try:
        quantize(encoder)
        found = _vectors(encoder, inputs)
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise ModelError(f"the transformer of {name} does not compute in int8 ({reason}); use float32") from error
    cosine = _least_cosine(exact, found)
    if cosine < FAR:
        logger.warning("int8 changes vectors of %s: cosine %.3f to float32; check what that does", name, cosine)
    return encoder, Choice("int8")


def _probe(tokenizer: PreTrainedTokenizerBase, device: torch.device, passages: int, tokens: int) -> dict[str, Tensor]:
    words = _TEXT.split() * 4
    texts = [" ".join(words[7 * row % 80 : 7 * row % 80 + tokens]) for row in range(passages)]
    rows = short_token_ids(tokenizer, texts, tokens)
    shortest = min(map(len, rows))
    ids = torch.tensor([row[:shortest] for row in rows], device=device)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _vectors(encoder: PassageEncoder, inputs: dict[str, Tensor]) -> Tensor:
    with inference(encoder):
        # Bringing them to the CPU waits for the device.
        return torch.from_numpy(as_numpy(encoder(**inputs)))


def _least_cosine(a: Tensor, b: Tensor) -> float:
    return float(torch.nan_to_num(torch.cosine_similarity(a.double(), b.double(), dim=1), nan=-1.0).min())
