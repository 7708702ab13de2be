"""Two harness processes that want the same phones: never both on one, by the phones' own logs."""

from __future__ import annotations

import itertools
import platform
import re
from pathlib import Path
from typing import Any

PHONES = ("high", "mid")


def test_two_processes_at_once_never_measure_on_one_phone_together(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    with bench.never_two_runners():
        both = [bench.start(tmp_path / name, "--wait-lease", "120") for name in ("one", "other")]
        one, other = (running.ended() for running in both)
    assert (one.status, other.status) == (0, 0), one.text + other.text
    for phone in bench.phones:
        assert one.verdicts(phone) == other.verdicts(phone) == ["ok"] * bench_module.CELLS
        spans = sorted(
            [*((*span, "one") for span in one.spans(phone)), *((*span, "two") for span in other.spans(phone))]
        )
        assert all(end <= begin for (_, end, _), (begin, _, _) in itertools.pairwise(spans))
        # Nor did they take turns: who has a phone has it for the whole run.
        assert len(list(itertools.groupby(who for *_, who in spans))) == 2
    bench.assert_as_found()


def test_who_does_not_wait_is_told_who_has_a_phone_and_takes_the_one_that_is_free(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    taken, free = bench.phones
    has_one = bench.start(tmp_path / "one", devices=taken.transport_serial, orders=bench_module.LONG)
    has_one.wait_until_measuring()
    wants_it = bench.start(tmp_path / "refused", devices=taken.transport_serial)
    wants_all = bench.start(tmp_path / "other")
    refused, other = wants_it.ended(), wants_all.ended()
    has_one.process.terminate()
    assert has_one.ended().status == 2
    whose = rf"in use by \S+ on {re.escape(platform.node())} for plan \S+, at least \d+ s more"
    assert refused.status == 11, refused.text
    assert re.search(rf"mnn-farm: {taken.transport_serial} was left out: {whose} ", refused.text), refused.text
    assert not refused.folder.path.exists()
    assert other.status == 0, other.text
    assert other.verdicts(free) == ["ok"] * bench_module.CELLS
    assert len(list(other.folder.records())) == bench_module.CELLS
    [left] = other.folder.read_info().left_out
    assert (left.name, left.code) == (taken.transport_serial, "busy")
    assert re.fullmatch(whose, left.reason)
    bench.assert_as_found()
