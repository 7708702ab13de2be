"""How many phones of a lab host measure at a time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.lab.host import Host


@pytest.mark.parametrize(
    ("phones", "max_parallel", "places"), [(3, None, 3), (3, 2, 2), (3, 8, 3), (0, None, 1), (0, 4, 1)]
)
def test_a_host_has_as_many_places_as_phones_unless_it_was_told_otherwise(
    tmp_path: Path, phones: int, max_parallel: int | None, places: int
) -> None:
    made: list[Any] = [SimpleNamespace(identity=SimpleNamespace(id=f"phone-{number}")) for number in range(phones)]
    fleet = cast("Any", SimpleNamespace(phones=made, left_out=[]))
    assert Host("lab1", fleet, tmp_path, max_parallel=max_parallel).places == places
