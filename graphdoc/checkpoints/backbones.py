"""Pretrained passage encoders: their tokenizers, language-model heads, and the modules of embedding models."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from ..errors import ModelError, SettingsError
from ..modeling import DocumentConfig, DocumentModel
from ..modeling.heads import NewHead, PretrainedHead
from ..modeling.passage_encoder import pooler_options
from ..runtime.text import counted
from ..segmentation.segmenter import SegmentationConfig, Segmenter
from .contents import (
    CONFIG_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    check_contents,
    check_settings,
    checked_config,
    is_checkpoint,
    quiet_libraries,
    read_json,
    summary,
    token_limit,
)
from .folders import backbone_folder, download, existing, not_found

logger = logging.getLogger(__name__)

_LOADING: dict[str, Any] = dict(
    trust_remote_code=False, use_safetensors=True, dtype=torch.float32, output_loading_info=True
)

# What a chunk holds where nothing else is asked for (CoLDE, section 3.1).
CHUNK_TOKENS = 512
MODULES_FILE, PROMPTS_FILE = "modules.json", "config_sentence_transformers.json"
# Pooling as sentence-transformers names it, from version 6 on and before.
_POOLINGS = {"cls": "cls", "cls_token": "cls", "mean": "mean", "mean_tokens": "mean", "lasttoken": "last"}
_AFTER_POOLING: tuple[list[str], ...] = ([], ["Normalize"], ["Dense"], ["Dense", "Normalize"])
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")


def load_tokenizer(folder: Path, config: DocumentConfig, owner: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer and check that it fits the passage encoder.

    Paths that its settings name, such as those of the machine it was made on, are never opened: the files of the same
    names in the folder are.

    Raises:
        ModelError: its files are missing or broken, or belong to another model.
    """
    files = {
        key: str(file) if (file := folder / Path(value).name).is_file() else None
        for key, value in read_json(folder / TOKENIZER_FILE).items()
        if key.endswith("_file") and isinstance(value, str)
    }
    with quiet_libraries():
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **files)
        except Exception as error:  # tokenizers raises plain Exceptions
            raise ModelError(f"{owner} has no usable tokenizer: {summary(error)}; fetch it again") from error
    # Without its vocabulary file transformers makes a tokenizer of special tokens alone, and says nothing.
    if len(tokenizer) <= len(tokenizer.all_special_ids) or not tokenizer.is_fast:
        raise ModelError(f"the tokenizer of {owner} has no vocabulary, or is a slow one; give its tokenizer.json")
    known = int(config.encoder_config.vocab_size)  # type: ignore[union-attr]
    tokens = max(len(tokenizer), 1 + max(tokenizer.get_vocab().values()))
    if tokens > known:
        raise ModelError(
            f"the tokenizer of {owner} has {tokens:,} tokens, its passage encoder knows {known:,}; "
            "take both from the same model"
        )
    tokenizer.chat_template = None
    return cast(PreTrainedTokenizerBase, tokenizer)


def segmenter_of(config: DocumentConfig, tokenizer: PreTrainedTokenizerBase, name: str) -> Segmenter:
    """The segmenter of a model; a ModelError says that its sizes do not suit the tokenizer."""
    # Titles in front of sentences are not what is trained on.
    context = "none" if config.unit == "sentence" else config.context
    try:
        sizes = SegmentationConfig(
            config.passage_words, config.passage_tokens, config.max_passages, config.language, config.unit, context,
            config.document_prompt,
        )  # fmt: skip
        return Segmenter(tokenizer, sizes)  # type: ignore[arg-type]
    except SettingsError as error:
        raise ModelError(f"{name}: {str(error).replace('max_tokens', 'passage_tokens')}") from error


def backbone_config(backbone: str, **settings: Any) -> DocumentConfig:
    """Configuration of an untrained graph on a pretrained passage encoder.

    Raises:
        ModelError: the backbone cannot be found, or a setting is unknown or does not fit.
    """
    folder = backbone_folder(backbone, weights=False)
    if is_checkpoint(folder):
        raise ModelError(f"{backbone} is a graphdoc checkpoint; load it with DocumentEncoder.from_pretrained")
    with quiet_libraries():
        try:
            encoder_config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            encoder_config.name_or_path = ""
        except Exception as error:  # from a foreign configuration transformers raises anything
            raise not_found(backbone, error) from error
    kind = type(encoder_config)
    is_decoder = kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING
    if encoder_config.is_encoder_decoder or is_decoder:
        raise ModelError(f"{backbone} ({encoder_config.model_type}) is no encoder; take one such as roberta-base")
    check_settings(settings, backbone)
    if is_embedding_model(folder) and "pooling" not in settings:
        settings["pooling"] = read_modules(folder, backbone)[0]["pooling"]
    usual = CHUNK_TOKENS if settings.get("unit") == "chunk" else DocumentConfig.passage_tokens
    usual = min(usual, token_limit(encoder_config))
    values = {"encoder_config": encoder_config, "backbone": backbone, "skip": "identity", "passage_tokens": usual}
    return checked_config({**values, **settings}, f"a model on {backbone}")


def load_backbone(config: DocumentConfig) -> tuple[DocumentModel, PreTrainedTokenizerBase]:
    """Build a document model whose passage encoder has the pretrained weights of ``config.backbone``.

    Everything above the passage encoder is freshly initialized from torch's random generator. Where the backbone is a
    folder, the configuration keeps the folder's name and not where it lies.

    Raises:
        ModelError: the backbone cannot be found or its files are damaged.
    """
    assert config.backbone is not None
    backbone = config.backbone
    folder = backbone_folder(backbone)
    with quiet_libraries():
        try:
            pooler = pooler_options(cast(PreTrainedConfig, config.encoder_config))
            loaded = AutoModel.from_pretrained(folder, **_LOADING, **pooler)
        except (RuntimeError, SafetensorError) as error:
            raise ModelError(f"weights of {backbone} cannot be loaded: {summary(error)}; fetch them again") from error
        except Exception as error:  # from a foreign configuration transformers raises anything
            raise not_found(backbone, error) from error
        pretrained, report = cast(tuple[PreTrainedModel, dict[str, Any]], loaded)
        # In the place of what is missing transformers has drawn weights at random; nothing reads those of a pooler.
        if missing := sorted(key for key in map(str, report["missing_keys"]) if "pooler" not in key.split(".")):
            raise ModelError(
                f"the files of backbone {backbone} lack {counted(len(missing), 'weight')} that its {CONFIG_FILE} asks "
                f"for ({', '.join(missing[:3])}); save or fetch them again"
            )
        model = DocumentModel(config)
    model.passage_encoder.transformer.load_state_dict(pretrained.state_dict())
    if (path := existing(backbone)) is not None:
        model.config.backbone = path.resolve().name
    model.train(False)
    return model, load_tokenizer(folder, config, f"backbone {backbone}")


def load_language_model_head(transformer: PreTrainedModel, backbone: str | None) -> NewHead | PretrainedHead:
    """The head of the language model that a passage encoder comes from, or, with a warning, a new one.

    A new one shares the input embeddings and is drawn from torch's random generator, on the transformer's device.
    """
    try:
        head: NewHead | PretrainedHead = _pretrained_head(transformer, backbone)
    except Exception as error:  # from a foreign configuration transformers raises anything
        message = "%s comes without a language-model head (%s); a new one is trained, tied to the input embeddings"
        logger.warning(message, backbone or "the model", summary(error))
        head = NewHead(transformer)
    return head.to(transformer.device)


def _pretrained_head(transformer: PreTrainedModel, backbone: str | None) -> PretrainedHead:
    """The head that comes with the weights of a backbone; any exception means that there is none."""
    if backbone is None:
        raise ValueError("it does not say what it was made from")
    folder = backbone_folder(backbone)
    with quiet_libraries():
        language_model, report = AutoModelForMaskedLM.from_pretrained(folder, **_LOADING, ignore_mismatched_sizes=True)
    if type(language_model.config) is not type(transformer.config):
        raise ValueError(f"it is {language_model.config.model_type}, not {transformer.config.model_type}")
    prefix = f"{language_model.base_model_prefix}."
    if any(not str(key).startswith(prefix) for key in report["missing_keys"]):
        raise ValueError("its weights are those of the encoder alone")
    head = PretrainedHead(language_model, transformer).eval()
    with torch.no_grad():
        head.to(transformer.device)(torch.zeros(1, transformer.config.hidden_size, device=transformer.device))
    return head


def is_embedding_model(folder: Path) -> bool:
    """Whether a folder holds a model of sentence-transformers, and no checkpoint of graphdoc that both can read."""
    return (folder / MODULES_FILE).is_file() and not is_checkpoint(folder)


def read_modules(folder: Path, name: str) -> tuple[dict[str, Any], Path | None]:
    """The settings of a passage encoder that the modules of an embedding model stand for; none of its code is run.

    Returns:
        Fields of a configuration; the folder of its dense layer, if it has one.

    Raises:
        ModelError: there is a module that graphdoc cannot read; the message names it.
    """
    try:
        modules = json.loads((folder / MODULES_FILE).read_text(encoding="utf-8"))
        types, paths = zip(*((str(module["type"]), str(module["path"])) for module in modules), strict=True)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{MODULES_FILE} of {name} cannot be read: {summary(error)}; fetch it again") from error
    if any(kind.startswith("pylate.") for kind in types):
        raise ModelError(f"{name} keeps a vector of every token, for late interaction; graphdoc needs one of a passage")
    # A class of the same name elsewhere is code of the model's own.
    kinds = [kind.rpartition(".")[2] if kind.startswith("sentence_transformers.") else kind for kind in types]
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in _AFTER_POOLING:
        raise ModelError(
            f"{name} consists of the modules {', '.join(kinds)}; graphdoc reads Transformer, Pooling, then Dense and "
            "Normalize where there are any"
        )
    if paths[0]:
        raise ModelError(f"the transformer of {name} lies in {paths[0][:200]!r}; move its files up into the folder")
    of_modules = zip(kinds, paths, strict=True)
    folders = {kind: _module_folder(folder, path, name) for kind, path in of_modules if kind in ("Pooling", "Dense")}
    values: dict[str, Any] = {"normalize_passages": kinds[-1] == "Normalize"}
    pooling = read_json(folders["Pooling"] / CONFIG_FILE)
    older = [key.removeprefix("pooling_mode_") for key in pooling if key.startswith("pooling_mode_") and pooling[key]]
    mode = str(pooling.get("pooling_mode") or " and ".join(older))
    if mode not in _POOLINGS:
        mode = mode or f"nothing that {paths[1]}/{CONFIG_FILE} names"
        raise ModelError(f"{name} pools by {mode}; graphdoc reads models that pool by cls, mean or lasttoken")
    values["pooling"] = _POOLINGS[mode]
    if "Dense" in folders:
        dense = read_json(folders["Dense"] / CONFIG_FILE)
        if not str(dense.get("activation_function")).endswith(".Tanh") or not dense.get("bias", True):
            raise ModelError(f"the dense layer of {name} is not tanh with a bias, which is what graphdoc reads")
        values["projection_size"] = dense.get("out_features")
    settings = read_json(folder / PROMPTS_FILE)
    if not settings and (folder / PROMPTS_FILE).is_file():
        raise ModelError(f"{PROMPTS_FILE} of {name} cannot be read; fetch it again")
    if settings.get("truncate_dim"):
        raise ModelError(
            f"{name} cuts its vectors to {settings['truncate_dim']} numbers; take truncate_dim out of "
            f"{PROMPTS_FILE} to read them whole"
        )
    if settings.get("similarity_fn_name") in ("dot", "dot_score"):
        values["similarity"] = "dot"
    prompts = settings.get("prompts") or {}
    usual = prompts.get(settings.get("default_prompt_name")) or ""
    values["document_prompt"] = next((prompts[key] for key in _DOCUMENT_PROMPTS if prompts.get(key)), usual)
    values["query_prompt"] = prompts.get("query") or usual
    if (values["document_prompt"] or values["query_prompt"]) and not pooling.get("include_prompt", True):
        raise ModelError(f"{name} leaves its prompt out of the pooling, which graphdoc cannot do")
    return values, folders.get("Dense")


def _module_folder(folder: Path, path: str, name: str) -> Path:
    """The folder of a module, fetched where the model lies on the hub."""
    if Path(path).name != path or path in (".", "..") or (folder / path).is_symlink():
        raise ModelError(f"{MODULES_FILE} of {name} names {path[:200]!r}, which is no folder in it; fetch it again")
    module = folder / path
    if not module.is_dir() and existing(name) is None:
        module = download(name, [f"{path}/{CONFIG_FILE}", f"{path}/{WEIGHTS_FILE}"]) / path
    if module.is_dir():
        check_contents(module, f"{path} of {name}")
    return module


def embedding_config(name: str, **settings: Any) -> DocumentConfig:
    """The configuration of a document encoder whose passage vectors are those of an embedding model.

    A document vector is the mean of its passages' vectors: there is no graph.
    """
    folder = existing(name) or backbone_folder(name, weights=False)
    values, _ = read_modules(folder, name)
    usual = {"graph_layers": 0, "readout": "mean", "projection_size": None, "trained": True}
    config = backbone_config(name, **{**usual, **values, **settings})
    # From version 6 on the longest text stands with the tokenizer.
    files = {"sentence_bert_config.json": "max_seq_length", TOKENIZER_FILE: "model_max_length"}
    limits = [read_json(folder / file).get(key) for file, key in files.items()]
    if "passage_tokens" not in settings:
        sizes = [limit for limit in limits if isinstance(limit, int)]
        config.passage_tokens = min(*sizes, config.passage_tokens, DocumentConfig.passage_tokens)
    return config


def load_embedding_model(name: str, **settings: Any) -> tuple[DocumentModel, PreTrainedTokenizerBase]:
    """Load an embedding model, a folder or hub id, as a document encoder in eval mode, with its tokenizer.

    Raises:
        ModelError: a module cannot be read, or weights are missing or damaged.
    """
    model, tokenizer = load_backbone(embedding_config(name, **settings))
    if model.projection is not None:
        _, dense = read_modules(backbone_folder(name), name)
        if dense is None:
            raise ModelError(f"{name} has no weights for its projection; leave projection_size as it is")
        try:
            weights = load_file(dense / WEIGHTS_FILE)
            model.projection.load_state_dict({key: weights[f"linear.{key}"].float() for key in ("weight", "bias")})
        except (OSError, SafetensorError, KeyError, RuntimeError) as error:
            raise ModelError(f"{dense.name} of {name} cannot be loaded: {summary(error)}; fetch it again") from error
    return model, tokenizer
