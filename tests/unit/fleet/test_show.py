from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any

from rich.console import Console

from harness.fleet import show
from harness.fleet.look import Seen
from harness.fleet.states import Why
from harness.payload.probe_lease import Lease
from harness.phone.health import Failure, Hold

NOW = datetime(2031, 5, 4, 3, 2, 1, tzinfo=timezone.utc)
HOLD = Hold(phone_id="id-1", name="toy", code="held", detail="glass", since=NOW, until=None, by="person")
LEASE = Lease("7", "ada", "lab9", "a soak", "boot", 17, 60_000, 59_000)


def seen(name: str = "toy", **known: Any) -> Seen:
    return Seen(name, "127.0.0.1:5037", name, "device", 1, "1-4", **{"model": None, **known})


def text(table: Any) -> list[list[str]]:
    """Return the cells of a table as printed, row by row, without its head."""
    console = Console(width=300)
    with console.capture() as capture:
        console.print(table)
    lines = [line.strip() for line in capture.get().splitlines()[3:]]
    return [re.split(r"\s{2,}", line) for line in lines if line]


def failure(name: str, port: str, code: str, hours: int = 0) -> Failure:
    return Failure(
        phone_id=f"id-{name}", name=name, port=port, code=code, detail="gone", at=NOW + timedelta(hours=hours)
    )


def test_a_usable_phone_is_a_row() -> None:
    phone = seen(
        model="Toy 3", soc="T900", tier="mid", ram_bytes=6 * 2**30, android_release="14", sdk=34, battery_pct=80,
        battery_c=31.25, lease=LEASE,
    )  # fmt: skip
    [row] = text(show.phones_table([phone]))
    assert row == [
        "toy", "device", "Toy 3", "T900", "mid", "6.0 GiB", "14 (API 34)", "80 %", "31.2 °C",
        "ada on lab9 for a soak, at least 59 s more", "yes",
    ]  # fmt: skip


def test_what_is_unknown_is_a_question_mark_and_never_zero() -> None:
    [row] = text(show.phones_table([seen(why=Why("booting", "it boots"))]))
    assert row == ["toy", "device", *"???????", "-", "booting"]


def test_why_a_phone_cannot_be_used_stands_below_with_its_remedy() -> None:
    phones = [
        seen("a"),
        seen("b", why=Why("device_offline", "it is offline", "replug it"), hold=HOLD),
        seen("c", why=Why("held", HOLD.text, "mnn-farm devices release c"), hold=HOLD),
        seen("d", tier="low", tier_because="no rule fits"),
    ]
    assert show.remarks(phones) == [
        "b: it is offline (replug it)",
        "b: held by a person until it is released: glass (mnn-farm devices release b)",
        "c: held by a person until it is released: glass (mnn-farm devices release c)",
        "tier low: d: no rule fits",
    ]


def test_json_has_everything_and_says_usable() -> None:
    row = json.loads(json.dumps(show.as_json(seen(hold=HOLD, lease=LEASE, why=Why("held", "x", "y")))))
    assert (row["usable"], row["why"]) == (False, {"code": "held", "reason": "x", "remedy": "y"})
    assert (row["lease"]["owner"], row["hold"]["since"]) == ("ada", "2031-05-04T03:02:01Z")
    assert show.as_json(seen())["usable"] is True


def test_history_is_told_per_phone_and_per_port() -> None:
    failures = [failure("a", "1-4", "device_lost"), failure("b", "1-4", "rebooted", 1), failure("a", "1-5", "hang", 2)]
    told = json.loads(
        json.dumps(show.history_as_json(failures, {"id-a": "a", "id-b": "b"}, {"id-a": HOLD, "id-b": None}))
    )
    assert [(row["name"], len(row["failures"]), row["hold"] is None) for row in told["phones"]] == [
        ("a", 2, False),
        ("b", 1, True),
    ]
    assert [(row["port"], row["failures"], row["phones"], row["last"]["code"]) for row in told["ports"]] == [
        ("1-4", 2, ["a", "b"], "rebooted"),
        ("1-5", 1, ["a"], "hang"),
    ]
    assert [row[-2] for row in text(show.history_table(failures))] == ["hang", "rebooted", "device_lost"]
    assert text(show.ports_table(failures)) == [
        ["1-4", "2", "a, b"],
        ["1-5", "1", "a"],
    ]
