"""Tasks on a real Ray cluster of this machine: who does which, and what an error or a death costs."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from graphdoc.errors import DocumentError, MissingExtraError, OutputError, SettingsError
from graphdoc.runtime.ray import RayCluster


class Squares:
    """Squares numbers; one of them takes the process with it, once or always."""

    def __init__(self, mark: Path, always: bool = False) -> None:
        self.mark, self.always = mark, always

    def begin(self) -> None:
        assert torch.get_num_threads() == 1

    def square(self, number: int) -> int:
        if number == 3 and (self.always or not self.mark.exists()):
            self.mark.touch()
            os._exit(1)
        if number < 0:
            raise DocumentError(f"document {number} has no text")
        return number * number


@pytest.mark.slow
def test_tasks_deaths_and_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra graphdoc[scale]")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    # Processes of the cluster find this module as this one does.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [*sys.path, str(Path(__file__).parent)])))
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(40):
            read.append(number)
            yield number

    found: list[int] = []
    with RayCluster("local", Squares(tmp_path / "died")) as cluster:
        for square in cluster.map("square", numbers()):
            found.append(square)
            assert len(read) <= len(found) + 2 * int(ray.cluster_resources()["CPU"])
        assert sorted(found) == [number * number for number in range(40)]
        assert (tmp_path / "died").exists()
        with pytest.raises(DocumentError, match="-1"):
            list(cluster.map("square", [1, -1, 2]))
        with pytest.raises(OutputError, match="TypeError"):
            list(cluster.map("square", ["text"]))
    assert not ray.is_initialized()
    with RayCluster("local", Squares(tmp_path, always=True)) as cluster, pytest.raises(OutputError):
        list(cluster.map("square", [3]))


def test_addresses_that_lead_nowhere_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="needs the extra graphdoc[scale]")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = taken.getsockname()[1]
        for address in (f"127.0.0.1:{closed}", f"ray://127.0.0.1:{closed}", "127.0.0.1:99999"):
            with pytest.raises(OutputError, match=address):
                RayCluster(address, None)
    for address in ("nonsense", "http://a:1", "local:x", ""):
        with pytest.raises(SettingsError, match=repr(address)):
            RayCluster(address, None)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match="scale"):
        RayCluster("local", None)
