"""What does contrastive pretraining give a raw language model? Tables 1 and 2 of the Graph-RoBERTa paper, small.

A small RoBERTa is trained from scratch by masked language modelling on the shared texts, and nothing else. Then the
whole of it is pretrained between sub-documents of 20 Newsgroups train without labels, by `graphdoc.training`, with the
graph and with the mean of its passages. K-means fitted on train, applied to test. Every stage checkpoints into the
working folder, and goes on from there when the command is given again. `--classify` trains on classes instead, from the
language model and from what contrast made of it.

    python benchmarks/raw_language_model.py [--work FOLDER] [--steps 350] [--contrastive-steps 200]
    python benchmarks/raw_language_model.py --classify newsgroups20 imdb --documents 1000
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from own_corpus import drawn
from paper_baselines import chunk_encoder
from reporting import DATA, ROOT, describe_machine, write_result
from tokenizers import ByteLevelBPETokenizer
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForLanguageModeling,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaTokenizerFast,
    Trainer,
    TrainingArguments,
)

from graphdoc import DocumentEncoder, read_documents
from graphdoc.evaluation import ClassificationEvaluator, ClusteringEvaluator
from graphdoc.runtime.files import write_text
from graphdoc.settings.finetuning import ClassificationSettings
from graphdoc.settings.loading import load_settings
from graphdoc.settings.pretraining import SubDocumentLossSettings, SubDocumentSettings
from graphdoc.settings.run import CorpusSettings, ModelSettings, TrainingSettings
from graphdoc.trainer import train

NEWSGROUPS = DATA / "newsgroups20"
SOURCES = (
    "newsgroups20/train.jsonl.gz",
    "wikispeedia/articles.jsonl.gz",
    "imdb/train.jsonl.gz",
    "standard_ebooks/chapters.jsonl.gz",
    "tech_proposals/documents.jsonl.gz",
    "scisumm_acl/papers.jsonl.gz",
)
VOCABULARY, BLOCK, PASSAGES, DOCUMENTS = 6_000, 128, 3, 128
SHAPE = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
VARIANTS: dict[str, dict[str, Any]] = {
    "mean of passages": {"projection_size": None, "graph_layers": 0, "readout": "mean"},
    "graph": {"projection_size": 128, "graph_layers": 2, "readout": "document_node"},
}
# Of table 2; the first reads as many tokens as the language model can.
TRUNCATED, CONTRAST = "language model, truncated", "graph with contrast"
CLASSIFIERS: dict[str, dict[str, Any]] = {
    TRUNCATED: {**VARIANTS["mean of passages"], "unit": "chunk", "passage_tokens": 256},
    "graph without contrast": VARIANTS["graph"],
    CONTRAST: VARIANTS["graph"],
}
PARTS, EPOCHS = ("train", "test"), 10
CHANGES = "training.learning_rate=5e-4 training.keep_activations=100000 training.dataloader_num_workers=0"


def texts(most_characters: int) -> Iterator[str]:
    """The training texts, of each source so many characters; test parts are left out."""
    for source in SOURCES:
        left = most_characters
        for document in read_documents(DATA / source, on_error="skip"):
            if document.metadata.get("split") in ("test", "dev"):
                continue
            yield document.text
            left -= len(document.text)
            if left < 0:
                break


class Blocks(Dataset[dict[str, torch.Tensor]]):
    """Texts in a row, cut into blocks of tokens."""

    def __init__(self, tokenizer: RobertaTokenizerFast, most_characters: int) -> None:
        rows = tokenizer(list(texts(most_characters)), add_special_tokens=False)["input_ids"]
        inside = BLOCK - 2
        flat = np.concatenate([np.array([*row, tokenizer.eos_token_id]) for row in rows])
        self.blocks = flat[: len(flat) // inside * inside].reshape(-1, inside)
        self.ends = tokenizer.bos_token_id, tokenizer.eos_token_id

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.tensor([self.ends[0], *self.blocks[row], self.ends[1]])}


def language_model(work: Path, steps: int, most_characters: int) -> Path:
    """Train tokenizer and language model, or go on with it; the folder of the finished model."""
    folder = work / "language_model"
    if (folder / "config.json").is_file():
        return folder
    vocabulary = work / "tokenizer"
    if not (vocabulary / "tokenizer.json").is_file():
        vocabulary.mkdir(parents=True, exist_ok=True)
        learner = ByteLevelBPETokenizer()
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        learner.train_from_iterator(texts(3_000_000), vocab_size=VOCABULARY, special_tokens=special)
        learner.save(str(vocabulary / "tokenizer.json"))
    tokenizer = RobertaTokenizerFast(tokenizer_file=str(vocabulary / "tokenizer.json"), model_max_length=512)
    torch.manual_seed(0)
    trainer = Trainer(
        RobertaForMaskedLM(RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=258, **SHAPE)),
        TrainingArguments(
            str(work / "masked"),
            max_steps=steps,
            per_device_train_batch_size=64,
            learning_rate=1e-3,
            warmup_steps=steps // 10,
            weight_decay=0.01,
            save_steps=250,
            save_total_limit=2,
            logging_steps=100,
            report_to=[],
            seed=0,
        ),
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
        train_dataset=Blocks(tokenizer, most_characters),
    )
    trainer.train(resume_from_checkpoint=any((work / "masked").glob("checkpoint-*")))
    (work / "loss.txt").write_text(f"{[e['loss'] for e in trainer.state.log_history if 'loss' in e][-1]:.2f}")
    tokenizer.save_pretrained(folder)
    trainer.model.save_pretrained(folder)
    return folder


def contrastive(work: Path, start: Path, variant: str, steps: int) -> Path:
    """Pretrain between sub-documents, or go on with it; the folder of the finished model."""
    output = work / variant.replace(",", "").replace(" ", "_")
    if (output / "model" / "config.json").is_file():
        return output / "model"
    settings = SubDocumentSettings(
        corpus=CorpusSettings(
            source=str(NEWSGROUPS / "train.jsonl.gz"), max_passages=PASSAGES, cache=str(work / "cache")
        ),
        model=ModelSettings(start=str(start), settings={"pooling": "mean", **VARIANTS[variant]}),
        loss=SubDocumentLossSettings(similarity="cosine", temperature=0.1),
        training=TrainingSettings(
            batch_size=DOCUMENTS,
            max_steps=steps,
            learning_rate=1e-3,
            keep_activations=100_000,
            dataloader_num_workers=1,
            save_steps=25,
            logging_steps=5,
        ),
        output=str(output),
    )
    return train(settings, resume=(output / "config.yaml").is_file())


def classified(work: Path, start: Path, row: str, data: str, documents: int) -> float:
    """Accuracy on test after all weights were trained on classes, by the config of the paper but for some settings."""
    output = work / f"{data}_{documents}" / row.replace(",", "").replace(" ", "_")
    if not (scores := output / "scores.json").is_file():
        train_part, test_part = (drawn(DATA / data / f"{part}.jsonl.gz", documents, output) for part in PARTS)
        passages = 1 if row == TRUNCATED else PASSAGES
        changes = f"corpus.max_passages={passages} validation.share=0.1 training.epochs={EPOCHS} {CHANGES}".split()
        places = [f"corpus.source={train_part}", f"model.start={start}", f"output={output / 'run'}"]
        model_settings = f"model.settings={json.dumps({'pooling': 'mean', **CLASSIFIERS[row]})}"
        config = ROOT / "configs" / "finetune" / f"{data}.yaml"
        settings = load_settings(ClassificationSettings, config, [*places, *changes, model_settings])
        model = train(settings, resume=(settings.folder / "config.yaml").is_file())
        found = ClassificationEvaluator(list(read_documents(test_part)))(
            DocumentEncoder.from_pretrained(str(model), max_passages=passages)
        )
        write_text(scores, json.dumps(found))
    print(data, row, scores.read_text(), flush=True)
    return float(json.loads(scores.read_text())["accuracy"])


def classify(start: Path, options: argparse.Namespace) -> None:
    """Train on classes from the language model and from what contrast made of it, and write a table."""
    graph = contrastive(options.work, start, "graph", options.contrastive_steps)
    starts, sizes = dict.fromkeys(CLASSIFIERS, start) | {CONTRAST: graph}, f"{options.documents:,}"
    lines = [
        "# A raw language model trained on classes, before and after contrastive pretraining\n",
        f"`python benchmarks/raw_language_model.py --classify {' '.join(options.classify)} --documents "
        f"{options.documents} --steps {options.steps} --contrastive-steps {options.contrastive_steps}`\n",
        f"{describe_machine()}\n",
        "Language model and contrast are made as those of [table 1](raw_language_model.md). All weights are trained on "
        f"{sizes} documents of train, a tenth of which choose the checkpoint, in {EPOCHS} epochs of batches of 32 at "
        f"5e-4; accuracy on {sizes} of test. {PASSAGES} passages of a document, or its first 256 tokens.\n",
        f"| | {' | '.join(options.classify)} |\n|---|{'---|' * len(options.classify)}",
    ]
    for row, place in starts.items():
        found = (classified(options.work, place, row, data, options.documents) for data in options.classify)
        lines.append(f"| {row} | {' | '.join(f'{accuracy:.3f}' for accuracy in found)} |")
    lines.append(
        "\nThe paper, table 2, 20 Newsgroups and IMDB: RoBERTa truncated .862 and .956, graph without contrast .854 "
        "and .943, with contrast .867 and .943."
    )
    print(write_result("raw_language_model_classes", "\n".join(lines)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/raw_language_model"))
    parser.add_argument("--steps", type=int, default=350, help="steps of masked language modelling, 64 x 128 tokens")
    parser.add_argument("--characters", type=int, default=8_000_000, help="most characters of every source")
    parser.add_argument("--contrastive-steps", type=int, default=200, help=f"steps of {DOCUMENTS} documents")
    parser.add_argument("--documents", type=int, default=2_000, help="most documents of train and of test")
    parser.add_argument("--classify", nargs="+", choices=("newsgroups20", "imdb"), default=[], help="table 2 instead")
    options = parser.parse_args()
    start = language_model(options.work, options.steps, options.characters)
    if options.classify:
        return classify(start, options)
    plain = partial(DocumentEncoder.from_backbone, str(start), max_passages=PASSAGES, **VARIANTS["mean of passages"])
    rows = {"[CLS], mean of passages": plain(pooling="cls"), "mean of tokens and passages": plain(pooling="mean")}
    mean = rows["mean of tokens and passages"]
    rows["[CLS] of the first chunk"] = chunk_encoder(mean, "cls", 1)
    rows["mean of tokens, first chunk"] = chunk_encoder(mean, "mean", 1)
    rows["mean of tokens, all chunks"] = chunk_encoder(mean, "mean", None)
    for variant in VARIANTS:
        folder = contrastive(options.work, start, variant, options.contrastive_steps)
        rows[f"contrastive, {variant}"] = DocumentEncoder.from_pretrained(str(folder), max_passages=PASSAGES)
    files = (drawn(NEWSGROUPS / f"{part}.jsonl.gz", options.documents, options.work / "drawn") for part in PARTS)
    evaluation = ClusteringEvaluator(*(list(read_documents(file)) for file in files), seeds=range(5), probe=True)
    loss = (options.work / "loss.txt").read_text()
    lines = [
        "# A raw language model before and after contrastive pretraining\n",
        f"`python benchmarks/raw_language_model.py --steps {options.steps} "
        f"--contrastive-steps {options.contrastive_steps} --documents {options.documents}`\n\n{describe_machine()}\n",
        f"RoBERTa from scratch: {SHAPE['num_hidden_layers']} layers of {SHAPE['hidden_size']}, vocabulary of "
        f"{VOCABULARY:,}, {options.steps:,} steps of 64 x {BLOCK} tokens by masked language modelling (loss {loss}). "
        f"Then {options.contrastive_steps} steps of {DOCUMENTS} documents between sub-documents of 20 Newsgroups "
        f"train, without labels, cosine at 0.1, all weights trained. Up to {PASSAGES} passages of a document. "
        f"K-means fitted on {options.documents:,} documents of train, applied to as many of test, five seeds.\n",
        "| | NMI | purity | linear probe |\n|---|---|---|---|",
    ]
    for name, encoder in rows.items():
        began = time.perf_counter()
        scores = evaluation(encoder)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        lines.append(
            f"| {name} | {scores['nmi']:.3f} ± {scores['nmi_std']:.3f} | "
            f"{scores['purity']:.3f} ± {scores['purity_std']:.3f} | {scores['probe_accuracy']:.3f} |"
        )
    lines.append("\nThe paper, table 1: RoBERTa [CLS] 0.116, contrastive with the graph 0.516 (NMI).\n")
    print("\n".join(lines))
    write_result("raw_language_model", "\n".join(lines))


if __name__ == "__main__":
    main()
