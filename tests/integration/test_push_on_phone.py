"""Pushes to a virtual phone through the real adb: cut and gone on with, larger than 4 GiB, rotted, done before."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.adb.transport import AdbTransport
from harness.core.deadline import Deadline
from harness.core.errors import PhoneError, PhoneLostError
from harness.core.provider import Endpoint
from harness.core.transport import ShellResult
from harness.payload.folder import PayloadFile, PayloadFolder, read_folder
from harness.payload.probe import Probe
from harness.payload.ranges import PIECE_BYTES
from harness.payload.store import Stored, ensure_on_phone
from harness.virtual.control import PhoneControl

MIB = 1024**2


class Phone:
    def __init__(self, endpoint: Endpoint) -> None:
        self.transport = AdbTransport(endpoint)
        self.probe = Probe.install(self.transport)
        self.control = PhoneControl(endpoint.name)

    def bring(self, payload: PayloadFolder, said: list[str] | None = None) -> Stored:
        self.transport.state()  # it may have a new number
        say = (said if said is not None else []).append
        return ensure_on_phone(self.transport, self.probe, payload, kind="models", label="model toy", say=say)

    def says(self, *argv: str) -> str:
        return self.transport.shell(argv, deadline=self.deadline()).stdout.decode()

    def read_again(self, stored: Stored) -> list[bool]:
        """Look at a payload; for each file whether it was read, or its stamp believed."""
        argv = [self.probe.path, "hash", "--stamp", f"{stored.path}.stamp", "--trust-s", "3600", "--tree", stored.path]
        return ["stamped" not in line for line in self.says(*argv).splitlines()]

    def bring_until_cut(self, payload: PayloadFolder, after_bytes: int) -> None:
        """Push; the cable is pulled when so much has arrived, and plugged in again."""
        self.control.inject(f"cut-push={after_bytes}")
        with pytest.raises(PhoneError) as caught:
            self.bring(payload)
        assert caught.value.transient
        deadline = self.deadline()
        while self.control.info().faults != ("cut",):  # the bench notices a moment later that it was pulled
            deadline.remaining_s()
            time.sleep(0.02)
        self.control.heal()

    @staticmethod
    def deadline() -> Deadline:
        return Deadline(60, "the test", "the phone")


@pytest.fixture(scope="module")
def phone(virtual_phone: Endpoint) -> Phone:
    return Phone(virtual_phone)


def of_noise(folder: Path, **sizes: int) -> PayloadFolder:
    for name, size in sizes.items():
        (folder / name).write_bytes(os.urandom(size))
    return read_folder(folder)


def test_a_push_that_was_cut_at_half_sends_the_other_half(phone: Phone, tmp_path: Path) -> None:
    payload = of_noise(tmp_path, weights=64 * MIB, config=700)
    phone.bring_until_cut(payload, 32 * MIB)
    said: list[str] = []
    stored = phone.bring(payload, said)
    assert stored.pushed_bytes <= 0.55 * payload.size
    assert phone.probe.hash_tree(stored.path, 60) == {file.path: (file.size, file.sha256) for file in payload.files}
    assert int(said[1].split()[3]) >= 45, said[1]
    assert phone.says("ls", "-A", f"{phone.transport.base_dir}/incoming") == ""


def test_a_push_that_goes_on_may_be_cut_and_gone_on_with_again(phone: Phone, tmp_path: Path) -> None:
    """From the second time on it comes in pieces that are appended."""
    payload = of_noise(tmp_path, weights=48 * MIB)
    for _ in range(2):
        phone.bring_until_cut(payload, 16 * MIB)
    stored = phone.bring(payload)
    # Of each cut at most what was on its way is lost: two pieces and what the links hold.
    assert stored.pushed_bytes <= payload.size - 2 * 16 * MIB + 2 * (2 * PIECE_BYTES + MIB)
    assert phone.probe.hash_tree(stored.path, 60) == {"weights": (payload.size, payload.files[0].sha256)}


def test_a_file_larger_than_four_gibibytes_arrives_and_its_holes_are_not_sent(phone: Phone, tmp_path: Path) -> None:
    size = (4 << 30) + 5
    with (tmp_path / "weights").open("wb") as file:
        file.seek(size - 5)
        file.write(b"there")
    # of 4 GiB of zeros and five letters; computed once, elsewhere
    sha256 = "32917ccf87b3224d8b634fc2dcd637a401fc1f5fcf54e31e37f97dd5770e255a"
    stored = phone.bring(PayloadFolder(tmp_path, (PayloadFile("weights", size, sha256),)))
    assert stored.pushed_bytes <= MIB
    assert phone.says("stat", "-c", "%s", f"{stored.path}/weights") == f"{size}\n"
    there = ["dd", f"if={stored.path}/weights", "bs=4", f"skip={(size - 5) // 4}"]
    assert phone.says(*there) == "there"
    assert int(phone.says("du", "-sk", stored.path).split()[0]) < 2048
    assert phone.bring(PayloadFolder(tmp_path, (PayloadFile("weights", size, sha256),))) == Stored(stored.path, 0)
    phone.says("rm", "-rf", stored.path)


def test_what_is_there_needs_no_byte_and_no_reading_until_somebody_touches_it_or_the_phone_restarts(
    phone: Phone, tmp_path: Path
) -> None:
    payload = of_noise(tmp_path, config=300, weights=3 * MIB)
    stored = phone.bring(payload)
    assert phone.read_again(stored) == [False, False]
    assert phone.bring(payload) == Stored(stored.path, 0)
    phone.control.inject("reboot=0.1")
    phone.control.heal()
    phone.transport.state()
    assert phone.read_again(stored) == [True, True]
    assert phone.bring(payload) == Stored(stored.path, 0)
    assert phone.read_again(stored) == [False, False]


def test_of_a_payload_in_which_one_byte_changed_only_that_file_is_sent(phone: Phone, tmp_path: Path) -> None:
    payload = of_noise(tmp_path, config=300, weights=5 * MIB)
    stored = phone.bring(payload)
    phone.control.inject(f"corrupt={stored.path}/config")
    assert phone.bring(payload) == Stored(stored.path, 300)
    assert phone.probe.hash_tree(stored.path, 60) == {file.path: (file.size, file.sha256) for file in payload.files}
    assert phone.read_again(stored) == [False, False]


def test_a_full_disk_is_told_and_leaves_nothing_of_the_push(phone: Phone, tmp_path: Path) -> None:
    payload = of_noise(tmp_path, weights=9 * MIB)
    phone.control.inject("full-disk")
    with pytest.raises(PhoneError) as caught:
        phone.bring(payload)
    assert caught.value.reason.code == "no_space"
    phone.control.heal()
    assert "weights" not in phone.says("find", f"{phone.transport.base_dir}/incoming")
    assert phone.bring(payload).pushed_bytes == payload.size


def test_a_command_that_is_talked_to_answers_line_by_line_and_leaves_its_exit_code(phone: Phone) -> None:
    script = (
        'while read -r word; do [ "$word" = end ] && break; echo "$word $word"; done; echo no >&2; printf torn; exit 7'
    )
    with phone.transport.converse(["sh", "-c", script], deadline=phone.deadline()) as talk:
        assert talk.hear(wait=False) == []
        talk.say(b"one\n")
        assert talk.hear(wait=True) == [b"one one"]
        assert talk.result is None
        talk.say(b"two\nend\n")
        lines: list[bytes] = []
        while talk.result is None:
            lines += talk.hear(wait=True)
        assert (lines, talk.result) == ([b"two two"], ShellResult(7, b"torn", b"no\n"))
        assert talk.hear(wait=True) == []


def test_a_command_that_is_talked_to_over_a_link_that_breaks_is_lost(phone: Phone) -> None:
    with phone.transport.converse(["cat"], deadline=phone.deadline()) as talk:
        phone.control.inject("cut")
        with pytest.raises(PhoneLostError):
            talk.hear(wait=True)
    phone.control.heal()
    phone.transport.state()
