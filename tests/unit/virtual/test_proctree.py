from __future__ import annotations

import subprocess
import time
from typing import Any

from harness.virtual.proctree import ProcessTree, parse_stat

Sandbox = Any


def test_a_phone_with_its_daemons_only_is_idle(sandbox: Sandbox) -> None:
    assert sandbox.tree.is_idle()
    assert [process.is_daemon for process in sandbox.tree.snapshot().processes] == [True, True]
    assert sandbox.tree.snapshot().guests == ()


def test_what_was_started_is_a_guest_until_it_is_gone(sandbox: Sandbox) -> None:
    sandbox.say("import time; time.sleep(60)")
    assert not sandbox.tree.is_idle()
    guests = sandbox.tree.snapshot().guests
    assert len(guests) == 1
    end = time.monotonic() + 10
    while sandbox.tree.snapshot().guests[0].rss_kb < 1000:
        assert time.monotonic() < end
    sandbox.say("end")
    assert sandbox.tree.is_idle()


def test_processor_time_of_an_ended_child_is_not_lost(sandbox: Sandbox) -> None:
    before = sandbox.tree.snapshot().cpu_s
    sandbox.say("import time; [0 for _ in iter(lambda: time.process_time() < 0.4, False)]; time.sleep(60)")
    end = time.monotonic() + 10
    while sandbox.tree.snapshot().cpu_s - before < 0.3:
        assert time.monotonic() < end
    sandbox.say("end")
    assert sandbox.tree.snapshot().cpu_s - before >= 0.3


def test_a_name_with_blanks_and_brackets_does_not_confuse() -> None:
    name, fields = parse_stat(b"12 (a) b (c) S 1 12 12 0 -1 4194560 0")
    assert (name, fields[:2]) == ("a) b (c", ["S", "1"])


def test_a_tree_that_is_gone_is_empty() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    tree = ProcessTree(process.pid)
    assert tree.is_idle()
    assert tree.snapshot().processes == ()
