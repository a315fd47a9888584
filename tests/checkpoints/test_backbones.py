from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2Model, RobertaForMaskedLM, T5Config

from graphdoc.checkpoints.backbones import require_all_weights
from graphdoc.checkpoints.contents import CONFIG_FILE, WEIGHTS_FILE, token_limit
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import ModelError, SettingsError

EncoderFactory = Callable[..., DocumentEncoder]
BackboneFactory = Callable[[str], Path]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class TestBackbones:
    def test_weights_are_those_of_the_backbone(
        self, backbone_folder: BackboneFactory, tiny_encoder: EncoderFactory
    ) -> None:
        pretrained = load_file(backbone_folder("roberta") / WEIGHTS_FILE)
        weights = tiny_encoder("roberta").model.passage_encoder.transformer.state_dict()
        assert all(torch.equal(value, pretrained[key]) for key, value in weights.items())

    def test_a_language_model_loses_its_head(self, tiny_encoder: EncoderFactory, tmp_path: Path) -> None:
        encoder = tiny_encoder("roberta")
        whole = RobertaForMaskedLM(encoder.model.config.encoder_config)
        whole.save_pretrained(tmp_path)
        encoder.tokenizer.save_pretrained(tmp_path)
        loaded = DocumentEncoder.from_backbone(tmp_path, device="cpu")
        weights = loaded.model.passage_encoder.transformer.state_dict()
        assert all(torch.equal(value, whole.roberta.state_dict()[key]) for key, value in weights.items())

    def test_the_passage_limit_is_the_backbones(self, encoder_name: str, tiny_encoder: EncoderFactory) -> None:
        encoder = tiny_encoder(encoder_name)
        limit = token_limit(encoder.model.config.encoder_config)
        assert limit == (78 if "roberta" in encoder_name else 80)
        assert encoder.segmenter.config.max_tokens == limit
        vectors = encoder.encode("word-" * 400, level="passage")
        assert len(vectors) > 1
        assert np.isfinite(vectors).all()

    def test_checkpoints_are_no_backbones(self, saved: Path) -> None:
        with pytest.raises(ModelError, match=r"is a graphdoc checkpoint; load it with DocumentEncoder\.from_pretr"):
            DocumentEncoder.from_backbone(saved)

    def test_decoders_are_no_backbones(self, tmp_path: Path) -> None:
        GPT2Model(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=20)).save_pretrained(tmp_path / "gpt")
        T5Config().save_pretrained(tmp_path / "t5")
        for name in ("gpt", "t5"):
            with pytest.raises(ModelError, match="is no encoder; take one such as roberta-base"):
                DocumentEncoder.from_backbone(tmp_path / name)

    @pytest.mark.parametrize("missing", ["tokenizer.json", WEIGHTS_FILE, CONFIG_FILE])
    def test_incomplete_folders(self, backbone_folder: BackboneFactory, tmp_path: Path, missing: str) -> None:
        folder = shutil.copytree(backbone_folder("bert"), tmp_path / "copy")
        (folder / missing).unlink()
        with pytest.raises(ModelError) as caught:
            DocumentEncoder.from_backbone(folder)
        assert "\n" not in str(caught.value)
        assert str(folder) in str(caught.value)

    def test_damaged_weights(self, backbone_folder: BackboneFactory, tmp_path: Path) -> None:
        folder = shutil.copytree(backbone_folder("bert"), tmp_path / "copy")
        os.truncate(folder / WEIGHTS_FILE, 500)
        with pytest.raises(ModelError, match=r"weights of backbone .* cannot be loaded"):
            DocumentEncoder.from_backbone(folder)

    def test_weights_that_are_not_there(self, backbone_folder: BackboneFactory, tmp_path: Path) -> None:
        folder = shutil.copytree(backbone_folder("bert"), tmp_path / "copy")
        weights = load_file(folder / WEIGHTS_FILE)
        layer = {name for name in weights if name.startswith("encoder.layer.1.")}
        assert layer
        save_file({name: value for name, value in weights.items() if name not in layer}, folder / WEIGHTS_FILE)
        with pytest.raises(ModelError, match=rf"lack {len(layer)} weights .*encoder\.layer\.1\."):
            DocumentEncoder.from_backbone(folder)


def test_a_pooler_may_be_missing() -> None:
    require_all_weights(["pooler.dense.weight"], "some")
    with pytest.raises(ModelError, match=r"lack 1 weight .*\(poolers\.0\)"):
        require_all_weights(["poolers.0"], "some")


def test_a_configuration_that_asks_for_tuples(backbone: Path) -> None:
    expected = DocumentEncoder.from_backbone(backbone, device="cpu").encode("Rice is steamed.")
    path = backbone / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "return_dict": False}))
    assert (DocumentEncoder.from_backbone(backbone, device="cpu").encode("Rice is steamed.") == expected).all()


def test_a_seed_that_is_too_large(backbone: Path) -> None:
    with pytest.raises(SettingsError, match=r"seed=.* must be less than"):
        DocumentEncoder.from_backbone(backbone, device="cpu", seed=2**64)
