from __future__ import annotations

from typing import Any, cast

import pytest

from harness.bench.clean import Cleaned, clean
from harness.commands.clean import lines
from harness.core.errors import HarnessError
from harness.core.transport import ShellResult

FOLDER = "/data/local/tmp/mnn-farm"


class Untouched:
    """A phone that nobody may tell to do anything."""

    name = "toy"

    def __init__(self, base_dir: str, exit_code: int | None = None) -> None:
        self.base_dir = base_dir
        self.exit_code = exit_code

    def shell(self, *_args: object, **_more: object) -> ShellResult:
        assert self.exit_code is not None, "the phone was told to do something"
        exit_code, self.exit_code = self.exit_code, None
        return ShellResult(exit_code, b"", b"")


def cleaned(phone: Untouched) -> Cleaned:
    return clean(cast(Any, phone), lambda _: None)


@pytest.mark.parametrize(
    "folder",
    ["", "/", ".", "mnn-farm", "/data/local/tmp", "/sdcard/mnn-farm", "/data/local/tmp/mnn-farm/", "/a/b/c/../..",
     "/data//local/tmp/mnn-farm", "data/local/tmp/mnn-farm"],
)  # fmt: skip
def test_a_folder_that_may_not_be_ours_is_never_touched(folder: str) -> None:
    with pytest.raises(HarnessError, match="cannot be our folder on a phone: nothing was removed"):
        cleaned(Untouched(folder))


def test_a_link_to_another_folder_is_never_followed() -> None:
    with pytest.raises(HarnessError, match="is a link to another folder: nothing was removed"):
        cleaned(Untouched(FOLDER, exit_code=3))


def test_on_a_phone_without_our_folder_there_is_nothing_to_do() -> None:
    assert cleaned(Untouched(FOLDER, exit_code=4)) == Cleaned("toy", FOLDER, notes=("there is nothing of ours on it",))


def test_people_read_what_was_done_and_what_was_not() -> None:
    done = Cleaned(
        "toy", FOLDER, 4096, ("screen state",), ("doze deep: somebody",), ("x y: no",), ("owed.json",), ("z",)
    )
    assert lines(done) == [
        f"toy: 4,096 bytes freed in {FOLDER}",
        "put back: screen state",
        "left alone: doze deep: somebody",
        "still owed: x y: no",
        f"still in {FOLDER}: owed.json",
        "z",
    ]
    assert lines(Cleaned("toy", FOLDER, None)) == [f"toy: an unknown number of bytes freed in {FOLDER}"]


@pytest.mark.parametrize(
    ("owed", "left", "ok"),
    [((), (), True), ((), ("bin",), True), (("x",), (), False), ((), ("owed.json.damaged",), False)],
)
def test_a_phone_that_is_owed_something_is_not_clean(owed: tuple[str, ...], left: tuple[str, ...], ok: bool) -> None:
    assert Cleaned("toy", FOLDER, owed=owed, left=left).ok is ok
