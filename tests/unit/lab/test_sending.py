"""Payloads from a controller to a host's store, without a network between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ConfigError, FarmError
from harness.core.reasons import Reason
from harness.lab.intake import SILENCE_S, Answer, Intake
from harness.lab.parcel import MAIN, Packed, Parcel
from harness.lab.sending import bring
from harness.payload.folder import PayloadFile, read_folder

BIG = b"\x01\x02\x03" * 3_000_000  # three pieces


@pytest.fixture
def packed(tmp_path: Path) -> Packed:
    source = tmp_path / "model"
    source.mkdir()
    (source / "weights.bin").write_bytes(BIG)
    (source / "run").write_bytes(b"#!")
    (source / "empty").touch()
    folder = read_folder(source, executable=lambda name: name == "run")
    files = tuple(replace(file, path=f"{MAIN}/{file.path}") for file in folder.files)
    return Packed(Parcel(files), {MAIN: source})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def intake(tmp_path: Path, clock: Clock) -> Intake:
    (tmp_path / "store").mkdir()
    return Intake(tmp_path / "store", clock=clock)


def asking(intake: Intake, log: list[str] | None = None) -> Any:
    def ask(method: str, *args: Any) -> Any:
        if log is not None:
            log.append(method)
        return getattr(intake, method)(*args)

    return ask


def test_a_payload_travels_once_and_arrives_as_it_was(packed: Packed, intake: Intake) -> None:
    asked: list[str] = []
    assert bring(packed, "me", asking(intake, asked)) is True
    assert bring(packed, "you", asking(intake, asked)) is False
    assert asked == ["offer", *["put"] * 5, "finish", "offer"]
    place = intake.place_of(packed.parcel.hash) / MAIN
    assert (place / "weights.bin").read_bytes() == BIG
    assert {file.name: file.stat().st_mode & 0o777 for file in place.iterdir()} == {
        "weights.bin": 0o644, "run": 0o755, "empty": 0o644,
    }  # fmt: skip


def test_what_was_changed_on_the_way_does_not_appear(packed: Packed, intake: Intake, tmp_path: Path) -> None:
    def ask(method: str, *args: Any) -> Any:
        *rest, data = args
        changed = (*rest, b"!" + data[1:]) if method == "put" and data[:2] == b"#!" else args
        return getattr(intake, method)(*changed)

    with pytest.raises(ConfigError, match="files/run did not arrive as it was sent") as refused:
        bring(packed, "me", ask)
    assert refused.value.reason is Reason.PAYLOAD_CORRUPT
    assert list((tmp_path / "store").iterdir()) == []


def test_while_one_sends_another_waits_and_takes_over_from_one_that_fell_silent(
    packed: Packed, intake: Intake, clock: Clock
) -> None:
    parcel = packed.parcel
    assert intake.offer(parcel, "first") is Answer.SEND
    assert intake.offer(parcel, "second") is Answer.WAIT
    clock.now += SILENCE_S
    assert bring(packed, "second", asking(intake)) is True
    with pytest.raises(ConfigError, match="not taken from this sender"):
        intake.put(parcel.hash, "first", f"{MAIN}/run", 0, b"#!")


def test_a_sender_waits_until_another_one_has_sent_it(packed: Packed, intake: Intake) -> None:
    intake.offer(packed.parcel, "first")

    def meanwhile(_: float) -> None:
        for file in packed.parcel.files:
            for offset, data in packed.chunks(file.path):
                intake.put(packed.parcel.hash, "first", file.path, offset, data)
        intake.finish(packed.parcel.hash, "first")

    assert bring(packed, "second", asking(intake), sleep=meanwhile) is False


@pytest.mark.parametrize(
    ("path", "offset", "data"),
    [("files/run", 1, b"!"), ("files/run", 0, b"#!!"), ("files/other", 0, b""), ("../run", 0, b"#!")],
)
def test_only_the_next_piece_of_an_announced_file_is_taken(
    packed: Packed, intake: Intake, path: str, offset: int, data: bytes
) -> None:
    intake.offer(packed.parcel, "me")
    with pytest.raises(ConfigError, match="not the piece of it that comes next"):
        intake.put(packed.parcel.hash, "me", path, offset, data)


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "files/../../evil"])
def test_a_path_that_leads_out_is_refused_before_anything_is_written(intake: Intake, path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no plain path"):
        intake.offer(Parcel((PayloadFile(path, 1, "0" * 64),)), "me")
    assert not any("evil" in file.name for file in tmp_path.rglob("*"))


def test_what_does_not_fit_on_the_disk_is_refused(intake: Intake) -> None:
    with pytest.raises(FarmError, match="does not fit") as refused:
        intake.offer(Parcel((PayloadFile("files/huge", 2**60, "0" * 64),)), "me")
    assert refused.value.reason is Reason.HOST_DISK_FULL
