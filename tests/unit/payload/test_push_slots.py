"""Push slots: which phones share one, and what a push does that finds none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import FarmError, TransferError
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.payload.folder import PayloadFolder, read_folder
from harness.payload.push_slots import SLOT_TIMEOUT_S, PushSlots, link_of
from harness.payload.store import Stored, ensure_on_phone

LINK = "USB hub 1-4 of adb server 127.0.0.1:5037"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_FARM_STATE", str(tmp_path / "state"))


@pytest.fixture
def payload(tmp_path: Path) -> PayloadFolder:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(b"w" * 93)
    return read_folder(folder)


@pytest.mark.parametrize(
    ("usb", "host", "link"),
    [
        ("1-4.2", "127.0.0.1", LINK),
        ("1-4.3", "localhost", LINK),
        ("1-4.2.1", "127.0.0.1", "USB hub 1-4.2 of adb server 127.0.0.1:5037"),
        ("1-4", "127.0.0.1", "USB hub 1 of adb server 127.0.0.1:5037"),
        ("1-4.2", "lab1", "USB hub 1-4 of adb server lab1:5037"),
        ("", "127.0.0.1", "adb server 127.0.0.1:5037"),
        ("336592896X", "127.0.0.1", "adb server 127.0.0.1:5037"),
    ],
)
def test_phones_of_one_hub_of_one_computer_share_a_link(usb: str, host: str, link: str) -> None:
    assert link_of(Endpoint("p", adb_host=host, extra={"usb": usb} if usb else {})) == link


def test_phones_that_are_not_on_usb_share_their_adb_server() -> None:
    assert link_of(Endpoint("v", "virtual", adb_port=6001)) == "adb server 127.0.0.1:6001"


class Holder:
    """Another process that has a slot until it is killed."""

    def __init__(self, phone: str, count: int) -> None:
        script = (
            "import sys\n"
            "from harness.payload.push_slots import PushSlots\n"
            f"slot = PushSlots({LINK!r}, {count}).one({phone!r}, 'model big', print)\n"
            "print(slot.take_now(), flush=True)\n"
            "sys.stdin.read()\n"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "True\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def bring(phone: Any, payload: PayloadFolder, say: Any, count: int = 1) -> Stored:
    return ensure_on_phone(
        phone, phone, payload, kind="models", label="model toy", say=say, slots=PushSlots(LINK, count)
    )


def test_a_push_that_finds_no_slot_says_who_has_it_and_goes_on_when_that_process_is_killed(
    phone: Any, payload: PayloadFolder
) -> None:
    holder, said, sent = Holder("other-1", 1), [], []

    def say(what: str) -> None:
        said.append(what)
        if what.startswith("waiting"):
            sent.append(len(phone.sent))
            holder.kill()

    stored = bring(phone, payload, say)
    assert said[1] == f"waiting to push model toy: other-1 (model big) pushes over the same {LINK}"
    assert sent == [0]
    assert (stored.pushed_bytes, phone.sent_bytes) == (93, 93)
    assert said[2].startswith("pushing model toy")


def test_a_second_slot_is_taken_without_waiting(phone: Any, payload: PayloadFolder) -> None:
    holder, said = Holder("other-1", 2), []
    try:
        assert bring(phone, payload, said.append, count=2).pushed_bytes == 93
    finally:
        holder.kill()
    assert not any(what.startswith("waiting") for what in said)
    assert phone.sessions == 1


def test_who_has_nothing_to_send_needs_no_slot(phone: Any, payload: PayloadFolder) -> None:
    bring(phone, payload, print)
    holder = Holder("other-1", 1)
    try:
        assert bring(phone, payload, print).pushed_bytes == 0
        # Broken off after its last byte, before it was moved into place.
        stored = f"{phone.base_dir}/models/{payload.hash[:32]}"
        phone.move(stored, f"{phone.base_dir}/incoming/{payload.hash[:32]}/payload")
        assert bring(phone, payload, print).pushed_bytes == 0
    finally:
        holder.kill()


def test_who_waits_for_ever_is_told_who_had_the_slot(payload: PayloadFolder) -> None:
    holder, now = Holder("other-1", 1), [0.0]

    def clock() -> float:
        now[0] += SLOT_TIMEOUT_S / 3
        return now[0]

    try:
        with (
            PushSlots(LINK, 1).one("toy-1", "model toy", print, clock=clock) as slot,
            pytest.raises(FarmError, match=r"3600 s \(other-1 \(model big\) pushes\): see what they do") as caught,
        ):
            slot.wait()
    finally:
        holder.kill()
    assert caught.value.reason is Reason.BUSY


def test_after_a_push_and_after_one_that_failed_the_slot_is_free(phone: Any, payload: PayloadFolder) -> None:
    bring(phone, payload, print)
    with PushSlots(LINK, 1).one("toy-2", "model toy", print) as slot:
        assert slot.take_now()
        with PushSlots(LINK, 1).one("toy-3", "model toy", print) as other:
            assert not other.take_now()
    phone.remove(f"{phone.base_dir}/models")
    phone.spoil = lambda item, data: data[:-1] + b"!"
    with pytest.raises(TransferError):
        bring(phone, payload, print)
    with PushSlots(LINK, 1).one("toy-4", "model toy", print) as slot:
        assert slot.take_now()
