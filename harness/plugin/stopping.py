"""The orderly end that a signal asks for: Ctrl-C, or SIGTERM from whoever supervises the run."""

from __future__ import annotations

import signal
import threading

import pytest


def stop_in_order(config: pytest.Config, *, heed_second_interrupt: bool) -> None:
    """Make SIGTERM the same orderly end as Ctrl-C, and see that no further signal cuts that end short.

    Supervisors send one signal after another (interrupt, terminate), terminals send theirs to every process, and
    execnet interrupts its worker by itself: phones are put back meanwhile. ``heed_second_interrupt`` lets a person
    who presses Ctrl-C again have their way.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def stop(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, _ignore)
        signal.signal(signal.SIGINT, signal.default_int_handler if heed_second_interrupt else _ignore)
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    config.add_cleanup(restore)


def _ignore(*_: object) -> None:
    """Take a signal and do nothing. Unlike SIG_IGN it is not inherited by the programs that we start."""
