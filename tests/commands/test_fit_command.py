from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from checkpoint_loading import load
from corpus_examples import write_rows
from two_processes import run_commands

from graphdoc.documents.document import Document
from graphdoc.encoder import DocumentEncoder
from graphdoc.recipes.fitted_head import fit_vectors_and_words

MEAN = {"readout": "mean", "graph_layers": 0, "projection_size": None, "pooling": "mean"}


@pytest.fixture
def start(tiny_encoder: Callable[..., DocumentEncoder], tmp_path: Path) -> Path:
    return tiny_encoder("bert", **MEAN).save_pretrained(tmp_path / "start")


@pytest.fixture
def corpus(structured: list[Document], tmp_path: Path) -> Path:
    rows = [
        {"id": f"{one.id} {number}", "text": section.text}
        for one in structured
        for number, section in enumerate(one.sections)
        if section.text.strip()
    ]
    return write_rows(tmp_path / "letters.jsonl", rows)


def test_a_model_is_fitted_and_compares(graphdoc: Callable[..., Any], start: Path, corpus: Path) -> None:
    fitting = ("fit", corpus, "--model", start, "--device", "cpu", "--output", "mine")
    run = graphdoc(*fitting, "--lexical", "--lexical-weight", "0.8", "--corpus", "letters", "--json", "fit.json")
    assert run.status == 0, run.err
    found = json.loads(Path("fit.json").read_text(encoding="utf-8"))
    encoder = load("mine")
    rows = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    expected = load(start)
    expected.fit([row["text"] for row in rows], lexical=True)
    torch.testing.assert_close(encoder.model.centre, expected.model.centre, atol=1e-6, rtol=0)
    assert torch.equal(encoder.model.lexical.components, expected.model.lexical.components)
    assert found["documents"] == len(rows) and found["numbers"] == encoder.model.lexical.settings.numbers
    assert found["model"]["lexical_weight"] == 0.8
    assert encoder.model.config.centre[0].startswith("letters (")
    assert f"{found['numbers']} numbers" in run.out and "wrote mine" in run.out
    assert len(rows) < 100 and f"warning: {len(rows)} documents are few" in run.out
    first, second = (f"{corpus}#{row['id']}" for row in rows[:2])
    compared = graphdoc("compare", first, second, "--model", "mine", "--device", "cpu", "--html", "report.html")
    assert compared.status == 0, compared.err
    assert "is due to words" in compared.out
    assert 'class="meaning lexical"' in Path("report.html").read_text(encoding="utf-8")


def test_a_head_is_fitted_and_predicts(
    graphdoc: Callable[..., Any], refused: Callable[..., str], start: Path, tmp_path: Path
) -> None:
    rows = [
        {"id": f"{kind} {number}", "text": f"The {words[number % 3]} and the {words[1]} of {number}.", "kind": kind}
        for kind, words in (("sea", ("tide", "wave", "shore")), ("sky", ("moon", "orbit", "comet")))
        for number in range(6)
    ]
    unlabelled = {"id": "none", "text": "The moon pulls the tide.", "kind": None}
    corpus = write_rows(tmp_path / "notes.jsonl", [*rows, unlabelled])
    fitting = ("fit", corpus, "--label-column", "kind", "--model", start, "--device", "cpu", "--output", "mine")
    run = graphdoc(*fitting, "--lexical", "--least-documents", "1", "--classes", "--json", "fit.json")
    assert run.status == 0, run.err
    found = json.loads(Path("fit.json").read_text(encoding="utf-8"))
    assert (found["documents"], found["classes"]["documents"]) == (13, 12)
    assert found["classes"]["classes"] == ["sea", "sky"] and found["classes"]["reads_words"]
    assert "2 classes of 12 documents" in run.out and "1 document with no label" in run.out
    predicted = graphdoc("predict", corpus, "--model", "mine", "--device", "cpu", "--json", "predictions.json")
    assert predicted.status == 0, predicted.err
    given = json.loads(Path("predictions.json").read_text(encoding="utf-8"))["documents"]
    assert sum(one["label"] == row["kind"] for one, row in zip(given, rows, strict=False)) >= 11
    assert all(one["words"] for one in given) and {one["label"] for one in given[0]["words"]} == {given[0]["label"]}
    for suffix in ("csv", "parquet"):
        run = graphdoc("predict", corpus, "--model", "mine", "--device", "cpu", "--output", f"rows.{suffix}")
        assert run.status == 0, run.err
    listed = [json.loads(cell) for cell in pd.read_csv("rows.csv")["words"]]
    assert listed == [one["words"] for one in given]
    assert [[word["word"] for word in cell] for cell in pd.read_parquet("rows.parquet")["words"]] == [
        [word["word"] for word in one] for one in listed
    ]
    shown = graphdoc("predict", f"{corpus}#sea 0", "--model", "mine", "--device", "cpu")
    assert shown.status == 0, shown.err
    assert "words that speak for it" in shown.out
    # What is read is as long as before the head.
    plain = load("mine")
    assert plain.encode("The tide.").shape[-1] == plain.hidden_size
    kept = graphdoc(*fitting[:-1], "head", "--classes", "--no-centre", "--json", "head.json")
    assert kept.status == 0, kept.err
    assert "centre" not in kept.out and "2 classes of 12 documents" in kept.out
    assert (
        load("head").model.centre is None and not json.loads(Path("head.json").read_text())["classes"]["reads_words"]
    )
    several = write_rows(tmp_path / "several.jsonl", [{**row, "kind": ["a", "b"]} for row in rows])
    message = refused("fit", several, "--label-column", "kind", "--model", start, "--classes", "--output", "other")
    assert "12 documents" in message and "finetune classify" in message
    alone = write_rows(tmp_path / "alone.jsonl", rows[:6])
    message = refused("fit", alone, "--label-column", "kind", "--model", start, "--classes", "--output", "other")
    assert "sea" in message and "label" in message
    assert not Path("other").exists()


def test_a_seed_draws_what_is_held_out(
    graphdoc: Callable[..., Any], start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []

    def noted(vectors: Any, words: Any, labels: Any, seed: int, **options: Any) -> Any:
        seeds.append(seed)
        return fit_vectors_and_words(vectors, words, labels, seed, **options)

    monkeypatch.setattr("graphdoc.recipes.fitted_head.fit_vectors_and_words", noted)
    rows = [{"id": str(n), "text": f"The {('tide', 'moon')[n % 2]} of {n}.", "kind": n % 2} for n in range(4)]
    corpus = write_rows(tmp_path / "notes.jsonl", rows)
    fitting = ("fit", corpus, "--label-column", "kind", "--model", start, "--device", "cpu", "--classes")
    for options in ((), ("--seed", "3")):
        run = graphdoc(*fitting, *options, "--output", "mine")
        assert run.status == 0, run.err
    assert seeds == [0, 3]
    for seed in ("-1", str(2**32)):
        refusal = graphdoc(*fitting, "--seed", seed, "--output", "other")
        assert refusal.status == 2 and f"seed={int(seed)}" in refusal.err.replace(",", ""), refusal.err


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("--numbers", "20"), "--numbers has no effect without --lexical"),
        (("--seed", "1"), "--seed has no effect without --lexical or --classes"),
        (("--lexical-weight", "2"), "--lexical-weight has no effect without --lexical"),
        (("--no-centre",), "nothing to fit"),
        (("--lexical", "--least-documents", "400"), "least_documents"),
        (("--lexical", "--lexical-weight", "0"), "lexical_weight=0"),
    ],
)
def test_what_cannot_be(
    refused: Callable[..., str], start: Path, corpus: Path, options: tuple[str, ...], wanted: str
) -> None:
    assert wanted in refused("fit", corpus, "--model", start, "--device", "cpu", "--output", "mine", *options)


@pytest.mark.distributed
@pytest.mark.parametrize("hashed", [(), ("--hashed", "--terms", "400")])
def test_two_processes_learn_what_one_does(
    graphdoc: Callable[..., Any], start: Path, corpus: Path, tmp_path: Path, hashed: tuple[str, ...]
) -> None:
    fitting = ["fit", corpus, "--model", start, "--device", "cpu", "--lexical", "--sample", "6", *hashed, "--output"]
    assert graphdoc(*fitting, "one").status == 0
    run_commands([[*fitting, tmp_path / "two"]], tmp_path)
    one, two = load("one").model, load("two").model
    torch.testing.assert_close(one.centre, two.centre, atol=1e-6, rtol=0)
    assert one.config.centre == two.config.centre
    assert one.lexical is not None and two.lexical is not None
    assert one.lexical.vocabulary == two.lexical.vocabulary
    assert torch.equal(one.lexical.idf, two.lexical.idf)
    assert torch.equal(one.lexical.components, two.lexical.components)
