"""Lines are read a fast way first; whatever that does not plainly take is looked at closely, with the same outcome."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.store import runfolder
from harness.store.nulls import unexplained_nulls
from harness.store.runfolder import latest_of


@pytest.fixture(scope="module")
def make(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).parents[1] / "report" / "factory.py")


def _without(data: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != name}


SPOILT: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "torn": lambda data: json.dumps(data).encode()[:-40],
    "no record": lambda data: json.dumps(_without(data, "record")).encode(),
    "no schema": lambda data: json.dumps(_without(data, "schema")).encode(),
    "another schema": lambda data: json.dumps({**data, "schema": 2}).encode(),
    "not a number": lambda data: json.dumps({**data, "elapsed_s": float("nan")}).encode(),
    "unexplained": lambda data: json.dumps({**data, "nulls": {}}).encode(),
    "not UTF-8": lambda data: json.dumps(data).encode().replace(b"tiny-llama", b"tiny-\xff"),
    "a list": lambda data: b"[]",
    "two in one line": lambda data: json.dumps(data).encode() * 2,
    "deep": lambda data: b"[" * 5000,
}


@pytest.mark.parametrize("how", SPOILT)
def test_what_is_no_record_is_refused_both_ways(make: ModuleType, how: str, caplog: pytest.LogCaptureFixture) -> None:
    line = SPOILT[how](make.record().model_dump(mode="json", by_alias=True))
    assert runfolder._parse_at_once(line) is None
    assert runfolder._parse(line, "results.jsonl:1") is None
    assert "results.jsonl:1 was passed over" in caplog.text


def test_what_is_a_record_reads_the_same_both_ways(make: ModuleType) -> None:
    for record in [*make.all_verdicts(), *make.a_night(), make.sustained()]:
        line = record.to_json_line()
        assert runfolder._parse_at_once(line) == runfolder._parse_in_steps(line, "") == record


def test_half_a_character_is_mended_also_in_a_line_that_is_looked_at_closely(make: ModuleType) -> None:
    line = json.dumps({**make.record().model_dump(mode="json", by_alias=True), "detail": "half \ud83d"}).encode()
    record = runfolder._parse(line, "")
    assert record is not None
    assert record.detail == "half \ufffd"


def test_a_null_is_missed_wherever_it_stands(make: ModuleType) -> None:
    record = make.record()
    speed = record.metrics.decode_tps.model_copy(update={"ci95": None})
    metrics = record.metrics.model_copy(update={"decode_tps": speed, "peak_rss_bytes": None})
    phone = record.phone.model_copy(update={"soc": None})
    spoilt = record.model_copy(update={"metrics": metrics, "phone": phone})
    assert unexplained_nulls(spoilt, spoilt.nulls) == ["soc", "decode_tps.ci95", "peak_rss_bytes"]


def test_the_last_attempt_counts_unless_it_never_began(make: ModuleType) -> None:
    from harness.core.reasons import Reason

    first, skipped = make.record(), make.record(reason=Reason.OUT_OF_TIME, attempt=2)
    again = make.record(attempt=3)
    assert latest_of([first, skipped]) == [first]
    assert latest_of([first, skipped, again]) == [again]
    assert latest_of([skipped]) == [skipped]
