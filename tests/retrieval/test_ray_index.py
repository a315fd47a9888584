"""An index whose documents a real Ray cluster on this machine encodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphdoc import Document, DocumentEncoder, DocumentIndex
from graphdoc.errors import DocumentError
from graphdoc.retrieval import ray_update

COLUMNS = ["key", "title", "heading", "text", "document_text", "year", "content_hash", "coverage"]


def rows(index: DocumentIndex) -> dict[str, dict[str, Any]]:
    found = (row for batch in index.rows([*COLUMNS, "document_vector", "passage_vector"]) for row in batch.to_pylist())
    return {row["key"]: row for row in found}


def require_same(index: DocumentIndex, other: DocumentIndex) -> None:
    ours, theirs = rows(index), rows(other)
    assert ours.keys() == theirs.keys()
    for key, row in ours.items():
        for name, value in row.items():
            if name.endswith("_vector") and value is not None:
                assert np.allclose(value, theirs[key][name], atol=1e-5)
            else:
                assert value == theirs[key][name], (key, name)


def test_batches_hold_some_characters_and_all_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_update, "_BATCH_CHARACTERS", 10)
    documents = [Document.from_text("x" * length, id=str(number)) for number, length in enumerate((4, 4, 4, 20, 1))]
    found = list(ray_update.batches_of(iter(documents)))
    assert [[one.id for one in batch] for batch in found] == [["0", "1", "2"], ["3"], ["4"]]


@pytest.mark.slow
def test_a_cluster_indexes_as_this_process_does(
    tmp_path: Path, encoder: DocumentEncoder, documents: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra graphdoc[scale]")
    monkeypatch.setattr(ray_update, "_BATCH_CHARACTERS", 200)
    here = DocumentIndex.create(tmp_path / "here", encoder)
    there = DocumentIndex.create(tmp_path / "there", encoder)
    changed = Document("rice", documents[1].sections[:2], metadata={"year": 2006})
    empty = Document("empty", ())
    with ray.init(address="local", include_dashboard=False, log_to_driver=False):
        reports = [here.update(documents), there.update(documents, ray="auto")]
        assert reports[0] == reports[1]
        require_same(here, there)
        changes = [*documents[:1], changed, empty]
        reports = [
            index.update(changes, on_error="skip", **where) for index, where in ((here, {}), (there, {"ray": "auto"}))
        ]
        assert reports[0] == reports[1]
        assert (reports[1].replaced, reports[1].unchanged, len(reports[1].skipped)) == (1, 1, 1)
        assert reports[1].known_passages > 0
        require_same(here, there)
        with pytest.raises(DocumentError) as error:
            there.update([empty], ray="auto")
        assert "empty" in str(error.value)
    assert [hit.id for hit in there.search("spring tides")] == [hit.id for hit in here.search("spring tides")]
