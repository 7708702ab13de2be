from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest

from harness.virtual.adbd.condition import Condition, CutError, Link, Output, garbage


def test_a_condition_survives_the_wire() -> None:
    condition = Condition(auth=True, keys=("a", "b"), bytes_per_s=5, cut_run_s=0.5, truncate_bytes=0)
    table = asdict(condition)
    table["keys"] = list(table["keys"])  # as JSON has it
    assert Condition.from_table(table) == condition


def test_the_cable_is_pulled_once_the_bytes_are_in_and_the_door_is_shut_before_it_is_told() -> None:
    said: list[str] = []
    link = Link(said.append, lambda: said.append("shut"))
    link.change(Condition(cut_push_bytes=100))
    link.count_pushed(60)
    with pytest.raises(CutError):
        link.count_pushed(40)
    assert said == ["shut", "cut"]


def test_output_gets_its_garbage_once_and_ends_early() -> None:
    output = Output(Condition(garbage_bytes=4, truncate_bytes=6))
    assert [output(b"abc"), output(b"def"), output(b"ghi")] == [garbage(4) + b"ab", b"", b""]


@pytest.mark.parametrize("count", [1, 7, 64, 1000])
def test_garbage_is_as_long_as_asked_for_and_never_utf8(count: int) -> None:
    assert len(garbage(count)) == count
    with pytest.raises(UnicodeDecodeError):
        garbage(count).decode()


def test_a_stalled_link_lets_nothing_through_until_it_moves_again() -> None:
    async def run() -> None:
        link = Link(lambda _event: None, lambda: None)
        link.change(Condition(stalled=True))
        passing = asyncio.create_task(link.pass_link("in", 1))
        await asyncio.sleep(0.01)
        assert not passing.done()
        link.change(Condition())
        await asyncio.wait_for(passing, 5)

    asyncio.run(run())
