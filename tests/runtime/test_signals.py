from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from graphdoc.runtime.signals import Dismissal, StopRequest


def test_a_request_to_stop_is_noted_and_the_signal_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest() as request:
        assert not request.is_made
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.is_made
    assert signal.getsignal(signal.SIGTERM) == before


def test_only_the_main_thread_listens() -> None:
    before = signal.getsignal(signal.SIGTERM)
    entered = []

    def listen() -> None:
        with StopRequest() as request:
            entered.append(request.is_made)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert entered == [False]
    assert signal.getsignal(signal.SIGTERM) == before


def test_workers_stay_until_they_are_dismissed() -> None:
    dismissal = Dismissal()
    with ProcessPoolExecutor(1, initializer=dismissal.await_in_worker) as pool:
        worker = pool.submit(os.getpid).result()
        os.kill(worker, signal.SIGTERM)
        assert pool.submit(os.getpid).result() == worker
        dismissal.give()
        with pytest.raises(BrokenProcessPool):
            while True:
                pool.submit(os.getpid).result()
