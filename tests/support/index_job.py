"""A program that changes an index until it is killed: ``index_job.py CHECKPOINT INDEX SEED``.

It prints a line of JSON before and after every change: ids with the version of the text that each has then, None for
what is deleted.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time

import numpy as np
import torch

from graphdoc import Document, DocumentEncoder, DocumentIndex, Section

torch.set_num_threads(1)
IDS = [f"document {number}" for number in range(12)]
Texts = dict[str, int | None]


def made(id: str, version: int) -> Document:
    """A document whose number of passages and words depend on its version."""
    sentence = f"Version {version} of {id} speaks of tides, rice and salt in words that fill a passage of its own. "
    return Document(id, [Section(sentence * (1 + (version + part) % 4), heading=f"S{part}") for part in range(3)])


def change(index: DocumentIndex, seed: int, output: int) -> None:
    """Add, replace, delete and maintain at random, for ever."""
    draw = random.Random(seed)

    def say(word: str, texts: Texts) -> None:
        os.write(output, (json.dumps([word, texts]) + "\n").encode())

    number = 0
    while True:
        number += 1
        some = draw.sample(IDS, draw.randint(1, 4))
        kind = draw.choice(["update", "update", "update", "delete", "maintain"])
        texts: Texts = {} if kind == "maintain" else dict.fromkeys(some)
        if kind == "update":
            texts = {id: seed * 1_000 + number for id in some}
        say("begin", texts)
        if kind == "update":
            index.update([made(id, version or 0) for id, version in texts.items()], maintain=draw.random() < 0.2)
        elif kind == "delete":
            index.delete(some, maintain=False)
        else:
            index.maintain()
        say("done", texts)


def check(index: DocumentIndex, expected: dict[str, set[int | None]]) -> None:
    """Every document is there whole, in a version that it may have."""
    rows: dict[str, list[dict[str, object]]] = {}
    columns = ["id", "level", "number", "section", "start", "end", "text", "text_start", "document_vector"]
    columns.append("sentence_places")
    for batch in index.rows(columns):
        for row in batch.to_pylist():
            rows.setdefault(row["id"], []).append(row)
    for id, versions in expected.items():
        own = rows.pop(id, [])
        if not own:
            assert None in versions, f"{id} is lost, it has to be one of {versions}"
            continue
        document = index.document(id)
        found = next((one for one in versions if one is not None and made(id, one) == document), None)
        assert found is not None, f"{id} is none of {versions}"
        segmented = index.encoder.segment(document)
        passages = {row["number"]: row for row in own if row["level"] == "passage"}
        spans = [(row["section"], row["start"], row["end"]) for _, row in sorted(passages.items())]  # type: ignore[type-var]
        assert spans == [(one.section, one.start, one.end) for one in segmented.passages], f"{id} is there in part"
        (places,) = [np.frombuffer(row["sentence_places"], np.int32) for row in own if row["sentence_places"]]  # type: ignore[call-overload]
        sentences = [(one.section, one.start, one.end) for one in index.encoder.segmenter.sentences(document).passages]
        assert list(map(tuple, places.reshape(-1, 4)[:, :3].tolist())) == sentences, f"{id} has other sentences"
        assert sorted(row["level"] for row in own) == sorted(  # type: ignore[type-var]
            ["document", *["passage"] * len(spans)]
        )
    assert not rows, f"nobody wrote {sorted(rows)}"


def main(checkpoint: str, place: str, seed: str, kills: str) -> None:
    """Kill a fork of this process that changes the index, at random moments, and check the index each time."""
    encoder = DocumentEncoder.from_pretrained(checkpoint, device="cpu")
    draw = random.Random(int(seed))
    expected: dict[str, set[int | None]] = {id: {None} for id in IDS}
    acknowledged = cut_short = 0
    number = 0
    # A few kills may all have come before a change or after it.
    while number < int(kills) or not (acknowledged and cut_short):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            here = DocumentIndex.exists(place)
            change(
                DocumentIndex.open(place, encoder) if here else DocumentIndex.create(place, encoder, sentences=True),
                number,
                writer,
            )
        os.close(writer)
        said = b""
        # Most are killed at one of the first changes, also where they are slow, some while they open the index.
        first = draw.randint(0, 5)
        while said.count(b"\n") < first and select.select([reader], [], [], 60)[0]:
            if not (part := os.read(reader, 65_536)):
                break
            said += part
        time.sleep(draw.uniform(0.0, 0.8))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, f"the writer of kill {number} ended by itself"
        with os.fdopen(reader, "rb") as rest:
            pending: Texts = {}
            for line in (said + rest.read()).splitlines():
                word, texts = json.loads(line)
                if word == "done":
                    acknowledged += 1
                    expected.update({id: {version} for id, version in texts.items()})
                pending = texts if word == "begin" else {}
        cut_short += bool(pending)
        for id, version in pending.items():
            expected[id] = expected[id] | {version}
        # The check has a process of its own: a fork of one in which LanceDB has threads could not use it.
        checker = os.fork()
        if not checker:
            if DocumentIndex.exists(place):
                check(DocumentIndex.open(place, encoder), expected)
            else:
                assert not acknowledged
            os._exit(0)
        assert os.waitpid(checker, 0)[1] == 0, f"after kill {number}"
        number += 1
    print(json.dumps({"kills": number, "acknowledged": acknowledged, "cut_short": cut_short}))


if __name__ == "__main__":
    main(*sys.argv[1:])
