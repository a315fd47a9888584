"""Batches of sections, and supervised contrast of them, from examples to vectors that can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_examples import SettingsFactory, text_of, write_rows
from typed import Encoders, Models, Patch

from graphdoc.corpus.corpus import prepare_corpus
from graphdoc.corpus.document import CorpusReport
from graphdoc.corpus.parts import prepare_passage_vectors
from graphdoc.corpus.source import CorpusSource
from graphdoc.errors import DocumentError
from graphdoc.losses import SupervisedContrastiveLoss
from graphdoc.losses.base import ONE_PROCESS
from graphdoc.modeling import DocumentModel
from graphdoc.recipes import mined_negatives as module
from graphdoc.recipes.base import CorpusRecipe
from graphdoc.recipes.classify import section_batch, token_counts
from graphdoc.recipes.mined_negatives import corpus_vectors
from graphdoc.runtime.processes import Processes
from graphdoc.sampling.sub_documents import DocumentSections
from graphdoc.settings.finetuning import ClassificationSettings
from graphdoc.settings.run import TrainingSettings
from graphdoc.training.objectives import SectionObjective
from graphdoc.training.run import RunContext


@pytest.fixture
def examples(training_examples: Any) -> Any:
    return training_examples(6)


@pytest.fixture
def model(tiny_model: Models) -> DocumentModel:
    own = {"section_lstm_size": 10, "section_projection_size": 8}
    return tiny_model("bert", readout="sections", projection_size=None, graph_layers=0, readout_settings=own)


def test_a_batch_holds_every_passage_in_its_section(examples: Any) -> None:
    sections, targets = DocumentSections(3, section_positions="shuffled", seed=4), {"group": torch.arange(6)}
    for most in (None, 15):
        batch = section_batch(examples, sections, 2, targets, graph="section", most_tokens=most)
        graphs, first = batch.graphs, 0
        assert batch.ids == tuple(example.id for example in examples) and batch.targets is targets
        assert batch.tokens == sum(map(len, graphs.token_ids))
        for number, example in enumerate(examples):
            split = sections.sample(example.id, 2, example.sections)
            split = split if most is None else split.limited(token_counts(example), most)
            rows = slice(first, first + len(split.order))
            assert graphs.places[rows].T.tolist() == [split.section_ids.tolist(), split.chunk_ids.tolist()]
            assert graphs.rows.document_of[rows].tolist() == [number] * len(split.order)
            assert graphs.section_of[graphs.rows.passages][rows].tolist() == example.sections[split.order].tolist()
            for place, passage in enumerate(split.order.tolist()):
                assert graphs.token_ids[first + place] is example.token_ids[passage]
            first += len(split.order)
        assert first == len(graphs.token_ids)
    assert 0 < first < sum(len(example.token_ids) for example in examples)


@torch.no_grad()
def test_one_section_is_the_document_and_vectors_made_before_go_along(examples: Any, model: DocumentModel) -> None:
    one, two = (section_batch(examples, DocumentSections(number), 0, {}).graphs for number in (1, 2))
    whole = one.split_into(None)
    assert torch.equal(model(one).documents, model(whole).documents) and len(model(one).sections) == 6
    assert float((model(two).documents - model(whole).documents).abs().max()) > 1e-2
    sections = DocumentSections(3, section_positions="shuffled")
    vectors = []
    for example in examples:
        vectors.append(model.encode_passages(section_batch([example], DocumentSections(1), 0, {}).graphs).numpy())
    for most in (None, 15):
        options = {"graph": "section", "most_tokens": most}
        expected = section_batch(examples, sections, 1, {}, **options)
        found = section_batch(examples, sections, 1, {}, passage_vectors=vectors, **options)
        assert found.tokens == 0 and len(found.graphs.passage_vectors) == sum(found.graphs.passage_counts)  # type: ignore[arg-type]
        assert float((model(found.graphs).sections - model(expected.graphs).sections).abs().max()) < 1e-5


@torch.no_grad()
def test_sections_have_the_groups_of_their_documents(examples: Any, model: DocumentModel, tiny_model: Models) -> None:
    targets, objective = torch.tensor([7, 3, 7, 3, 3, 9]), SectionObjective(SupervisedContrastiveLoss(0.5))
    for count in (1, 3):
        sections = DocumentSections(count, "length")
        batch = section_batch(examples, sections, 0, {"group": targets})
        output = model(batch.graphs)
        numbers = torch.tensor([len(sections.split(example.sections)) for example in examples])
        expected = SupervisedContrastiveLoss(0.5)(output.sections, targets.repeat_interleave(numbers)).loss
        torch.testing.assert_close(objective.loss(objective.rows(output), batch, ONE_PROCESS).loss, expected)
    plain = tiny_model("bert", readout="mean", graph_layers=0)(batch.graphs)
    expected = SupervisedContrastiveLoss(0.5)(plain.documents, targets).loss
    torch.testing.assert_close(objective.loss(objective.rows(plain), batch, ONE_PROCESS).loss, expected)


LABELS: list[Any] = ["rice", 7, 2.5, ["tide", "marsh"], [], None, " rice \t", "7"]


class AnyData(CorpusRecipe[Any]):
    begin = divide = lambda self: None

    def collator(self) -> Any:
        raise NotImplementedError

    def counts(self) -> dict[str, Any]:
        return {}


@dataclass
class Written:
    data: AnyData
    path: Path
    rows: list[dict[str, Any]]


@pytest.fixture
def written(tiny_encoder: Encoders, tmp_path: Path) -> Written:
    rows = [
        {"id": f"d{number // 2}", "text": text_of(1, number), "label": label, "split": "dev" if number % 2 else None}
        for number, label in enumerate(LABELS)
    ]
    path = write_rows(tmp_path / "corpus.jsonl", rows)
    corpus = {"source": str(path), "cache": str(tmp_path / "cache"), "preparing_processes": 1}
    settings = ClassificationSettings(corpus=corpus, output=str(tmp_path / "run"))
    return Written(AnyData.from_run(RunContext(settings, tiny_encoder(), Processes(torch.device("cpu")))), path, rows)


def test_documents_are_read_again_whatever_their_labels_are(written: Written) -> None:
    for wanted in ([], [2], [1, 3, 6], list(range(len(LABELS)))):
        found = written.data.documents_of(np.array(wanted, np.int64))
        assert [one.text for one in found] == [written.rows[row]["text"] for row in wanted]


@pytest.mark.parametrize("change", [{"label": "moss"}, {"text": "Rice."}, {"split": "test"}])
def test_documents_that_have_changed_are_named(written: Written, change: dict[str, str]) -> None:
    write_rows(written.path, [*written.rows[:2], {**written.rows[2], **change}, *written.rows[3:]])
    assert len(written.data.documents_of(np.array([0, 1, 3]))) == 3
    with pytest.raises(DocumentError, match=r"corpus\.jsonl: document 'd1' has changed .*; start the run again"):
        written.data.documents_of(np.array([0, 2]))


@pytest.mark.parametrize(("frozen", "window"), [(False, 7), (True, 10_000)])
def test_vectors_are_those_of_the_documents(
    tiny_encoder: Encoders, settings: SettingsFactory, monkeypatch: Patch, frozen: bool, window: int
) -> None:
    encoder = tiny_encoder("roberta", graph_kind="section", graph_layers=2, max_passages=100)
    for part in encoder.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    chosen = settings()
    processes = Processes(torch.device("cpu"))
    corpus = prepare_corpus(chosen, encoder.segmenter, processes, show_progress_bar=False)
    vectors = prepare_passage_vectors(corpus, encoder.model, show_progress_bar=False) if frozen else None
    monkeypatch.setattr(module, "WINDOW_PASSAGES", window)
    encoder.model.train()
    state = torch.get_rng_state()
    found = corpus_vectors(encoder, corpus, vectors, TrainingSettings(), processes)
    assert torch.equal(torch.get_rng_state(), state)
    assert encoder.model.training
    encoder.model.eval()
    documents = {document.id: document for _, document in CorpusSource(chosen).documents(CorpusReport())}
    np.testing.assert_allclose(found, encoder.encode([documents[id] for id in corpus.ids]), atol=1e-5)
    assert len(found) == 36
