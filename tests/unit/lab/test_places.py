from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.lab.places import checked_hash, checked_id, inside


def test_a_plain_name_is_a_path_below_the_root() -> None:
    assert inside(Path("/r"), "files/a b.bin") == Path("/r/files/a b.bin")


@pytest.mark.parametrize(
    "name", ["", "/etc/x", "../x", "a/../../x", "a//b", "./a", "a/", "a\\b", "a\nb", "a\0b", "x" * 1001]
)
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no plain path"):
        inside(Path("/r"), name)


def test_hashes_and_ids_are_checked() -> None:
    assert checked_hash("0f" * 32) == "0f" * 32
    assert checked_id("20260101-010203-ab12") == "20260101-010203-ab12"
    for check, text in (
        (checked_hash, "../" + "a" * 61),
        (checked_hash, "A" * 64),
        (checked_id, "../x"),
        (checked_id, ""),
    ):
        with pytest.raises(ConfigError):
            check(text)
