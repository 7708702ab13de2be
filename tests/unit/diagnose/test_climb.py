"""The climb: one rung after the other until one breaks, and which of several broken ones is the layer."""

from __future__ import annotations

import pytest

from harness.core.errors import ConfigError, HostError, PhoneLostError
from harness.core.reasons import Reason
from harness.core.resources import data_root
from harness.diagnose import rungs
from harness.diagnose.climb import climb
from harness.diagnose.rung import Outcome, Rung, State, Step, broke, held, unknown


def step(rung: Rung, outcome: Outcome | Exception, *, sibling: bool = False) -> Step:
    def test() -> Outcome:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Step(rung, test, sibling)


def test_every_rung_is_tried_while_they_hold() -> None:
    told: list[str] = []
    steps = [step(rungs.PHONE, held("here")), step(rungs.TEXT, unknown("no reference")), step(rungs.THREADS, held())]
    found = climb(steps, lambda rung: told.append(rung.name), lambda rung, one: told.append(one.state.value))
    assert found.broken is None
    assert found.left == ()
    assert told == ["phone", "held", "text", "not checkable", "threads", "held"]


def test_the_first_that_breaks_is_the_layer_and_nothing_above_it_is_tried() -> None:
    found = climb(
        [
            step(rungs.PHONE, held()),
            step(rungs.LINKS, broke(Reason.LINK_ERROR, "no libx.so")),
            step(rungs.LOAD, AssertionError("it must not be tried")),
        ]
    )
    assert found.broken is not None
    assert (found.broken[0], found.broken[1].reason) == (rungs.LINKS, Reason.LINK_ERROR)
    assert found.left == (rungs.LOAD,)


def test_an_error_breaks_the_rung_with_its_reason_and_its_remedy() -> None:
    found = climb([step(rungs.PROBE, PhoneLostError("p", "adb does not list it", remedy="plug it in"))])
    assert found.broken is not None
    outcome = found.broken[1]
    assert (outcome.state, outcome.reason, outcome.advice) == (State.BROKE, Reason.DEVICE_LOST, ("plug it in",))
    assert outcome.detail == "p: adb does not list it"


def test_bundle_errors_break_a_rung_but_a_senseless_wish_is_wrong_usage() -> None:
    mismatch = ConfigError("other ABI", remedy="build it", reason=Reason.ABI_MISMATCH)
    found = climb([step(rungs.BUNDLE, mismatch)])
    assert found.broken is not None
    assert found.broken[1].reason is Reason.ABI_MISMATCH
    with pytest.raises(ConfigError, match="no such phone"):
        climb([step(rungs.PHONE, ConfigError("no such phone"))])


def test_what_this_computer_cannot_do_is_no_layer_of_the_phone() -> None:
    with pytest.raises(HostError, match="no compiler"):
        climb([step(rungs.PROBE, HostError("no compiler"))])


def test_a_gpu_that_is_not_there_stops_nothing_and_is_the_layer_only_where_nothing_else_broke() -> None:
    absent = broke(Reason.BACKEND_MISSING_ON_PHONE, "no OpenCL driver on this phone")
    found = climb([step(rungs.OPENCL, absent), step(rungs.PROMPT, held())])
    assert found.broken == (rungs.OPENCL, found.tried[0][1])
    later = climb([step(rungs.OPENCL, absent), step(rungs.PROMPT, broke(Reason.CRASH, "killed by SIGSEGV"))])
    assert later.broken is not None
    assert later.broken[0] is rungs.PROMPT


def test_a_gpu_that_breaks_ends_the_climb_after_the_gpu_beside_it() -> None:
    found = climb(
        [
            step(rungs.OPENCL, broke(Reason.BACKEND_FALLBACK, "asked for opencl, ran on cpu")),
            step(rungs.VULKAN, held(), sibling=True),
            step(rungs.PROMPT, held()),
        ]
    )
    assert [rung.name for rung, _ in found.tried] == ["opencl", "vulkan"]
    assert found.broken is not None
    assert found.broken[0] is rungs.OPENCL
    assert found.left == (rungs.PROMPT,)


def test_seconds_are_those_of_the_clock() -> None:
    times = iter([10.0, 12.5])
    [(_, outcome)] = climb([step(rungs.PHONE, held())], clock=lambda: next(times)).tried
    assert outcome.seconds == 2.5


def test_the_documentation_has_every_rung_in_the_order_of_the_climb() -> None:
    page = (data_root() / "docs" / "diagnose.md").read_text()
    order = [
        rungs.MODEL, rungs.HOST, rungs.PHONE, rungs.STORAGE, rungs.PROBE, rungs.READY, rungs.BUNDLE, rungs.ENGINE,
        rungs.MEMORY, rungs.PAYLOAD, rungs.LINKS, rungs.LOAD, rungs.TOKEN, rungs.TEXT, rungs.THREADS, rungs.OPENCL,
        rungs.VULKAN, rungs.PROMPT, rungs.SUSTAINED,
    ]  # fmt: skip
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 4]
    assert rows == [f"| `{rung.name}` | {rung.adds} | {rung.why} |" for rung in order]
