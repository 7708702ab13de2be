"""Two harness processes that want the same phones: never both on one, by the phones' own logs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

PHONES = ("high", "mid")


def test_two_processes_at_once_never_measure_on_one_phone_together(bench: Any, tmp_path: Path) -> None:
    with bench.never_two_runners():
        both = [bench.start(tmp_path / name, "--wait-lease", "120") for name in ("one", "other")]
        one, other = (running.ended() for running in both)
    assert (one.status, other.status) == (0, 0), one.text + other.text
    for phone in bench.phones:
        assert one.verdicts(phone) == other.verdicts(phone) == ["ok"] * 2
        spans = sorted(
            [*((*span, "one") for span in one.spans(phone)), *((*span, "two") for span in other.spans(phone))]
        )
        assert all(end <= begin for (_, end, _), (begin, _, _) in itertools.pairwise(spans))
        # Nor did they take turns: who has a phone has it for the whole run.
        assert [who for *_, who in spans] in (["one"] * 2 + ["two"] * 2, ["two"] * 2 + ["one"] * 2)
    bench.assert_as_found()


def test_who_does_not_wait_is_told_who_has_the_phones_and_takes_those_that_are_free(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    first, second = (phone.transport_serial for phone in bench.phones)
    has_both = bench.start(tmp_path / "both", orders=bench_module.LONG)
    has_both.wait_until_measuring(2)
    refused = bench.run(tmp_path / "refused")
    has_both.process.terminate()
    assert has_both.ended().status == 2
    assert refused.status == 11, refused.text
    for serial in (first, second):
        assert f"mnn-farm: {serial} was left out: in use by root on " in refused.text
    assert "for plan " in refused.text
    assert not refused.folder.path.exists()

    has_one = bench.start(tmp_path / "one", devices=first, orders=bench_module.LONG)
    has_one.wait_until_measuring()
    other = bench.run(tmp_path / "other")
    has_one.process.terminate()
    assert has_one.ended().status == 2
    assert other.status == 0, other.text
    assert other.verdicts(bench.phones[1]) == ["ok"] * 2
    assert len(list(other.folder.records())) == 2
    [left] = other.folder.read_info().left_out
    assert (left.name, left.code) == (first, "busy")
    assert left.reason.startswith("in use by ")
    bench.assert_as_found()
