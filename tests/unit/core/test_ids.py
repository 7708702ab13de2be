from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from harness.core import ids


def test_the_canonical_form_knows_no_order_and_no_blanks() -> None:
    assert ids.canonical_json({"b": [1, 2.5, True, None], "a": "ü"}) == b'{"a":"\\u00fc","b":[1,2.5,true,null]}'
    assert ids.canonical_json({"a": {"y": 1, "x": 2}}) == ids.canonical_json({"a": {"x": 2, "y": 1}})


def test_an_id_is_the_sha256_of_that_form() -> None:
    # printf '{"a":1}' | sha256sum
    assert ids.content_id({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


def test_values_that_differ_in_kind_differ_in_id() -> None:
    values = [1, 1.0, "1", True, None, [1]]
    assert len({ids.content_id({"a": value}) for value in values}) == len(values)


def test_run_ids_sort_by_time_and_do_not_collide() -> None:
    made = {ids.new_run_id() for _ in range(20)}
    assert len(made) > 15
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", name) for name in made)


def test_times_are_utc_whatever_the_zone_they_came_in() -> None:
    east = timezone(timedelta(hours=2))
    assert ids.iso(datetime(2026, 1, 1, 1, 30, tzinfo=east)) == "2025-12-31T23:30:00Z"
    now = ids.utc_now()
    assert (now.microsecond, now.utcoffset()) == (0, timedelta(0))


def test_a_cells_name_is_the_one_of_the_interfaces_page() -> None:
    name = ids.test_name("toy-1", "tiny", "cpu", 4, "low", 64, 32, "abcdef0123")
    assert name == "toy-1-tiny-cpu-t4-low-p64-g32-abcdef"
