from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from harness.plugin.stopping import stop_in_order

Handlers = tuple[Any, Any]
Clean = list[Callable[[], None]]


def handlers() -> Handlers:
    return signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)


@pytest.fixture
def cleanups() -> Iterator[Clean]:
    """What is to be done in the end; it is, whatever a test does."""
    before, made = handlers(), Clean()
    yield made
    for undo in made:
        undo()
    assert handlers() == before


def install(cleanups: Clean, heed: bool) -> None:
    config: Any = SimpleNamespace(add_cleanup=cleanups.append)
    stop_in_order(config, heed_second_interrupt=heed)


def get(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_end_it_as_ctrl_c_does(cleanups: Clean, first: signal.Signals) -> None:
    install(cleanups, heed=False)
    with pytest.raises(KeyboardInterrupt, match=first.name):
        get(first)


def test_an_end_that_has_begun_is_not_cut_short(cleanups: Clean) -> None:
    install(cleanups, heed=False)
    with pytest.raises(KeyboardInterrupt):
        get(signal.SIGINT)
    get(signal.SIGTERM)
    get(signal.SIGINT)


def test_a_person_who_presses_ctrl_c_again_has_their_way(cleanups: Clean) -> None:
    install(cleanups, heed=True)
    with pytest.raises(KeyboardInterrupt):
        get(signal.SIGTERM)
    get(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        get(signal.SIGINT)


def test_a_thread_that_can_have_no_handlers_has_none(cleanups: Clean) -> None:
    before = handlers()
    thread = threading.Thread(target=install, args=(cleanups, True))
    thread.start()
    thread.join()
    assert handlers() == before
    assert cleanups == []
