from __future__ import annotations

from types import ModuleType

import pytest

from harness.core.reasons import Reason
from harness.report.meanwhile import Event, events, in_short
from harness.store.head import LeftOut


def latest(attempts):
    return list({record.cell_id: record for record in attempts}.values())


def test_the_night_is_told_with_those_that_are_still_away_first(make: ModuleType) -> None:
    back = ("recovered", "the phone was lost and came back (reconnect)")
    assert events(make.a_night()) == [
        Event(
            "2026-01-01T01:03:10Z", "birch", "given up", "device_lost",
            "not back after 120 s: adb does not list it", cells=3, gone=True,
        ),
        Event("2026-01-01T01:00:00Z", "atlas", "lease", "lease", "taken over from ada, whose lease lapsed"),
        Event(
            "2026-01-01T01:00:00Z", "atlas", "setting refused", "prepare_refused",
            "animations could not be set: permission denied",
        ),
        Event("2026-01-01T01:01:00Z", "atlas", "lost and back", *back, cells=2),
        Event("2026-01-01T01:01:00Z", "birch", "lost and back", *back),
        Event("2026-01-01T01:05:02Z", "cedar", "the phone rebooted", "rebooted", "the phone rebooted"),
        Event(
            "2026-01-01T01:06:02Z", "cedar", "given up", "device_offline", "not back",
            cells=2, gone=True, back="2026-01-01T01:50:00Z",
        ),
    ]  # fmt: skip


def test_in_short_it_names_who_was_given_up_and_what_is_left_to_do(make: ModuleType) -> None:
    attempts = make.a_night()
    assert in_short(attempts, latest(attempts)) == [
        "atlas was lost and came back: in 2 cells",
        "birch was given up (device_lost): 3 cells unfinished, finish with --resume",
        "birch was lost and came back: in 1 cell",
        "warnings beside the figures, told in the report: lease in 1 cell, prepare_refused in 1 cell",
    ]


def test_a_quiet_night_has_nothing_to_tell(make: ModuleType) -> None:
    cells = [
        make.record(findings=[make.note("foreground_app", "in front: com.example.home")]),
        make.record(threads=2, reason=Reason.CRASH),
        make.record(threads=4, reason=Reason.OUT_OF_TIME),
        make.record(threads=8, reason=Reason.NOISY),
    ]
    assert (events(cells), in_short(cells, cells)) == ([], [])


def cell(make: ModuleType, minute: int, reason: Reason | None):
    return make.record(threads=minute + 1, reason=reason, started=f"2026-01-01T00:{minute:02}:00Z")


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        ([Reason.LINK_STALLED, Reason.PHONE_GONE], [("given up", "link_stalled", 2)]),
        ([Reason.LINK_STALLED, None], [("the connection to the phone stalled", "link_stalled", 1)]),
        ([Reason.LEASE_LOST, Reason.LEASE_LOST], [("somebody else took the phone", "lease_lost", 2)]),
        ([Reason.THERMAL_SHUTDOWN, None], [("the phone shut down from heat", "thermal_shutdown", 1)]),
        ([Reason.CRASH, Reason.PHONE_GONE], [("given up", "phone_gone", 1)]),
        ([Reason.UNAUTHORIZED], [("given up", "unauthorized", 1)]),
        ([Reason.DEVICE_LOST, Reason.DEVICE_LOST], [("given up", "device_lost", 2)]),
    ],
)
def test_being_given_up_is_told_from_what_a_phone_survives(
    make: ModuleType, reasons: list[Reason | None], told: list[tuple[str, str, int]]
) -> None:
    cells = [cell(make, minute, reason) for minute, reason in enumerate(reasons)]
    assert [(event.what, event.code, event.cells) for event in events(cells)] == told


def test_a_cell_that_was_not_begun_does_not_bring_a_phone_back(make: ModuleType) -> None:
    away = [cell(make, 0, Reason.DEVICE_LOST), cell(make, 1, Reason.OUT_OF_TIME)]
    assert [event.back for event in events(away)] == [None]
    [event] = events([*away, cell(make, 2, None)])
    assert event.back == "2026-01-01T00:02:00Z"


def test_phones_that_others_had_come_last_and_those_that_were_named_stay_away(make: ModuleType) -> None:
    left = [
        LeftOut(name="elm", reason="held by a person", code="held"),
        LeftOut(name="fir", reason="not:fir leaves it out", code="excluded"),
    ]
    assert events([cell(make, 0, Reason.DEVICE_LOST)], left)[1:] == [
        Event("", "elm", "left out", "held", "held by a person", cells=0)
    ]


def test_a_time_that_is_none_is_shown_as_it_is(make: ModuleType) -> None:
    assert events([make.record(reason=Reason.DEVICE_LOST, started="soon")])[0].when == "soon"
