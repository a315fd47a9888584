from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_fixtures import Prepare
from typed import Patch

from graphdoc.corpus import parts as module
from graphdoc.corpus.corpus import TrainingCorpus
from graphdoc.corpus.parts import PassageVectors, prepare_passage_vectors
from graphdoc.errors import ModelError, OutputError
from graphdoc.graphs.batch import GraphBatch, Packing
from graphdoc.graphs.document_graph import graph_of_sections
from graphdoc.modeling import DocumentModel
from graphdoc.runtime.files import mark_checked


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: Patch) -> None:
    monkeypatch.setattr(module, "PART_PASSAGES", 20)


@pytest.fixture
def corpus(prepare: Prepare) -> TrainingCorpus:
    return prepare()


@pytest.fixture
def model(tiny_encoder: Any) -> DocumentModel:
    model: DocumentModel = tiny_encoder().model
    return model


def expected(model: DocumentModel, corpus: TrainingCorpus, number: int) -> Any:
    document = corpus[number]
    with torch.no_grad():
        return model.encode_passages(
            GraphBatch.from_graphs([graph_of_sections(document.sections.tolist())], document.token_ids)
        ).numpy()


def parts_of(vectors: PassageVectors) -> list[Path]:
    return sorted(vectors.folder.glob("part-*.npy"))


class Encoded:
    """Counts the passages that are encoded, and stops after some parts."""

    def __init__(self, monkeypatch: Patch, stop_after: int | None = None) -> None:
        self.passages = self.parts = 0
        real = DocumentModel.encode_passages

        def encode(model: DocumentModel, batch: GraphBatch, *arguments: Any) -> Any:
            if self.parts == stop_after:
                raise KeyboardInterrupt
            self.parts += 1
            self.passages += len(batch.token_ids)
            return real(model, batch, *arguments)

        monkeypatch.setattr(DocumentModel, "encode_passages", encode)


class TestContent:
    @pytest.mark.parametrize("pooling", ["cls", "mean"])
    def test_vectors_are_those_of_the_model(self, corpus: TrainingCorpus, tiny_encoder: Any, pooling: str) -> None:
        model = tiny_encoder(pooling=pooling).model.train()
        vectors = prepare_passage_vectors(corpus, model, packing=Packing(300))
        assert model.training and model.passage_encoder.training
        assert len(parts_of(vectors)) > 5
        assert (len(vectors), vectors.shape) == (36, (corpus.report.passages, 24))
        for number in (0, 35, *range(5, 30)):
            found = vectors.vectors_of(number)
            assert found.dtype == np.float32 and found.flags.writeable
            np.testing.assert_allclose(found, expected(model, corpus, number), atol=1e-5)
        with pytest.raises(IndexError):
            vectors.vectors_of(36)

    def test_precision_is_used_and_kept_apart(self, corpus: TrainingCorpus, model: DocumentModel) -> None:
        whole = prepare_passage_vectors(corpus, model)
        half = prepare_passage_vectors(corpus, model, precision="bfloat16")
        assert half.folder != whole.folder
        assert 1e-4 < np.abs(whole.vectors_of(0) - half.vectors_of(0)).max() < 1
        with pytest.raises(ModelError, match="dtype 'int8'"):
            prepare_passage_vectors(corpus, model, precision="int8")  # type: ignore[arg-type]

    def test_vectors_that_are_no_numbers_or_do_not_last_are_refused(
        self, corpus: TrainingCorpus, model: DocumentModel, tiny_encoder: Any
    ) -> None:
        with pytest.raises(ModelError, match="structural_embeddings"):
            prepare_passage_vectors(corpus, tiny_encoder(structural_embeddings=True, readout="sections").model)
        with torch.no_grad():
            next(model.passage_encoder.parameters()).fill_(float("nan"))
        with pytest.raises(ModelError, match="NaN"):
            prepare_passage_vectors(corpus, model)


class TestRuns:
    def test_an_interrupted_run_goes_on_at_the_first_missing_part(
        self, corpus: TrainingCorpus, model: DocumentModel, tmp_path: Path, monkeypatch: Patch
    ) -> None:
        with monkeypatch.context() as context:
            Encoded(context, stop_after=3)
            with pytest.raises(KeyboardInterrupt):
                prepare_passage_vectors(corpus, model)
        (folder,) = corpus.folder.glob("passage-vectors-*")
        written = {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*")}
        assert sorted(written) == ["part-00000.npy", "part-00001.npy", "part-00002.npy"]
        encoded = Encoded(monkeypatch)
        vectors = prepare_passage_vectors(corpus, model)
        assert encoded.passages == corpus.report.passages - sum(np.load(folder / name).shape[0] for name in written) > 0
        assert {name: (folder / name).stat().st_mtime_ns for name in written} == written
        monkeypatch.undo()
        for number in range(len(corpus)):
            np.testing.assert_allclose(vectors.vectors_of(number), expected(model, corpus, number), atol=1e-5)

    def test_a_failed_write_leaves_none(self, corpus: TrainingCorpus, model: DocumentModel, monkeypatch: Patch) -> None:
        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as context:
            context.setattr(np, "save", full)
            with pytest.raises(OutputError, match=r"part-00000\.npy.*No space left"):
                prepare_passage_vectors(corpus, model)
        assert not list(corpus.folder.glob("passage-vectors-*/*"))
        # What is whole is used again.
        first, encoded = prepare_passage_vectors(corpus, model), Encoded(monkeypatch)
        assert prepare_passage_vectors(corpus, model, packing=Packing(100)).folder == first.folder
        assert encoded.parts == 0

    def test_other_weights_pooling_or_documents_make_others(
        self, prepare: Prepare, corpus: TrainingCorpus, tiny_encoder: Any
    ) -> None:
        folders = [prepare_passage_vectors(corpus, tiny_encoder().model).folder]
        folders.append(prepare_passage_vectors(corpus, tiny_encoder(pooling="mean").model).folder)
        model = tiny_encoder().model
        with torch.no_grad():
            model.projection.weight.add_(1)
        assert prepare_passage_vectors(corpus, model).folder == folders[0]
        with torch.no_grad():
            next(model.passage_encoder.parameters())[5].add_(1)
        folders.append(prepare_passage_vectors(corpus, model).folder)
        folders.append(prepare_passage_vectors(prepare(max_passages=3), tiny_encoder().model).folder)
        assert len({folder.name for folder in folders}) == 4

    def test_a_damaged_part_is_made_again(self, corpus: TrainingCorpus, model: DocumentModel) -> None:
        vectors = prepare_passage_vectors(corpus, model)
        part = parts_of(vectors)[1]
        content = part.read_bytes()
        part.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        again = pickle.loads(pickle.dumps(vectors))
        with pytest.raises(OutputError, match=r"part-00001\.npy"):
            [again.vectors_of(number) for number in range(len(again))]
        for damaged in (content[:-8], content[:-1] + bytes([content[-1] ^ 1])):
            part.write_bytes(damaged)
            prepare_passage_vectors(corpus, model)
            assert part.read_bytes() == content
        np.save(part, np.zeros((3, 24), np.float32))
        mark_checked(part)
        prepare_passage_vectors(corpus, model)
        assert part.read_bytes() == content
