from __future__ import annotations

import copy

import pytest
import torch
from transformers import AutoConfig, AutoModel

from graphdoc.errors import ModelError
from graphdoc.graphs.batch import GraphBatch
from graphdoc.graphs.packing import Packing
from graphdoc.inference.precision import computed_in
from graphdoc.modeling.passage_encoder import ClsPooling, PassageEncoder

POOLINGS = ("cls", "mean")


@pytest.fixture(params=POOLINGS)
def pooling(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def by_hand(encoder: PassageEncoder, ids: tuple[int, ...]) -> torch.Tensor:
    """One passage without padding through the bare transformer."""
    hidden = encoder.transformer(input_ids=torch.tensor([ids])).last_hidden_state[0]
    return hidden[0] if isinstance(encoder.pooling, ClsPooling) else hidden.mean(0)


@torch.no_grad()
def test_padding_has_no_influence(encoder_name: str, pooling: str, tiny_encoder_config, random_document) -> None:
    config = tiny_encoder_config(encoder_name)
    encoder = PassageEncoder(config, pooling).eval()
    token_ids = random_document([0] * 12).token_ids
    width = max(map(len, token_ids)) + 7
    input_ids = torch.full((len(token_ids), width), config.pad_token_id)
    mask = torch.zeros_like(input_ids)
    for row, ids in enumerate(token_ids):
        input_ids[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1
    actual = encoder(input_ids, mask)
    expected = torch.stack([by_hand(encoder, ids) for ids in token_ids])
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    # What stands in the padding does not matter either, where positions are not counted from the padding token.
    if "roberta" not in encoder_name:
        noise = torch.where(mask == 1, input_ids, torch.randint(4, 100, input_ids.shape))
        torch.testing.assert_close(encoder(noise, mask), expected, atol=1e-5, rtol=1e-5)
    assert float((actual[0] - actual[1]).abs().max()) > 0.1


@torch.no_grad()
def test_mini_batches_encode_every_passage_as_if_alone(
    encoder_name: str, pooling: str, tiny_model, random_document
) -> None:
    model = tiny_model(encoder_name, pooling=pooling)
    batch = GraphBatch.from_documents([random_document([0] * 15, seed=seed) for seed in range(3)], "full")
    done: list[int] = []
    actual = model.encode_passages(batch, Packing(200), progress=done.append)
    expected = torch.stack([by_hand(model.passage_encoder, ids) for ids in batch.token_ids])
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    assert sum(done) == 45
    assert len(done) > 5
    for packing in (Packing(1), Packing(10_000), None):
        torch.testing.assert_close(model.encode_passages(batch, packing), expected, atol=1e-5, rtol=1e-5)


def test_building_leaves_a_shared_configuration_alone(encoder_name: str, tiny_encoder_config) -> None:
    config = tiny_encoder_config(encoder_name)
    before = copy.deepcopy(config.__dict__)
    encoder = PassageEncoder(config, "cls")
    encoder.transformer.set_attn_implementation("eager")
    encoder.transformer.config.hidden_size = 1
    assert config.__dict__ == before
    assert PassageEncoder(config, "cls").transformer.config._attn_implementation == "sdpa"


def test_every_weight_gets_a_gradient(encoder_name: str, pooling: str, tiny_encoder_config) -> None:
    encoder = PassageEncoder(tiny_encoder_config(encoder_name), pooling)
    ids = torch.randint(4, 100, (3, 9))
    encoder(ids, torch.ones_like(ids)).square().sum().backward()
    assert [name for name, parameter in encoder.named_parameters() if parameter.grad is None] == []


def test_weights_of_the_full_transformer_fit(encoder_name: str, tiny_encoder_config) -> None:
    config = tiny_encoder_config(encoder_name)
    whole = AutoModel.from_config(copy.deepcopy(config))
    missing, unexpected = PassageEncoder(config, "cls").transformer.load_state_dict(whole.state_dict(), strict=False)
    assert missing == []
    assert all("pooler" in name for name in unexpected)


def test_vectors_are_fp32_under_autocast(encoder_name: str, pooling: str, tiny_encoder_config) -> None:
    encoder = PassageEncoder(tiny_encoder_config(encoder_name), pooling).eval()
    ids = torch.randint(4, 100, (3, 9))
    with torch.autocast("cpu", torch.bfloat16):
        vectors = encoder(ids, torch.ones_like(ids))
    assert vectors.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(vectors, encoder(ids, torch.ones_like(ids))).min() > 0.99


def test_mean_pooling_leaves_out_padding_only(tiny_encoder_config) -> None:
    encoder = PassageEncoder(tiny_encoder_config("bert"), "mean").eval()
    ids = torch.randint(4, 100, (2, 6))
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]])
    hidden = encoder.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
    expected = torch.stack([hidden[0].mean(0), hidden[1, :2].mean(0)])
    torch.testing.assert_close(encoder(ids, mask), expected)


def test_a_transformer_that_mixes_types_is_refused_in_one_line() -> None:
    """DeBERTa casts parts of its attention back to fp32 by itself, and then multiplies both types."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = AutoConfig.for_model("deberta", vocab_size=50, relative_attention=True, pos_att_type=["c2p"], **sizes)
    encoder = PassageEncoder(config, "mean").eval()
    ids = torch.arange(5, 12).unsqueeze(0)
    with computed_in("float32", encoder, "it"):
        assert encoder(ids, torch.ones_like(ids)).shape == (1, 32)
    with (
        pytest.raises(ModelError, match=r"the transformer of it does not compute in bfloat16 on cpu \(.*use float32"),
        computed_in("bfloat16", encoder, "it"),
    ):
        encoder(ids, torch.ones_like(ids))
    with pytest.raises(RuntimeError, match="a fault"), computed_in("bfloat16", encoder, "it"):
        raise RuntimeError("a fault of another kind")
