from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from harness.core.deadline import Deadline
from harness.core.errors import AdbFailedError, ShellError
from harness.core.transport import ShellResult, Transport
from harness.phone.drivers import DriverListing
from harness.phone.facts import Facts, Told, build_facts
from harness.phone.identity import Identity, hardware_fingerprint, identify, parse_identity
from harness.phone.probed import read_probe_facts

ID = "5c0ffee0-0000-4000-8000-000000000001"
PATH = "/base/phone-id.json"


@pytest.fixture
def facts() -> Facts:
    probe = {"mem_total_bytes": 8 << 30, "cores": [{"cpu": 0}, {"cpu": 1}], "boot_id": "b1", "kernel": "6.1"}
    properties = {"ro.serialno": "TOY1", "ro.product.model": "Toy 3", "ro.soc.model": "TS900"}
    return build_facts(Told(properties, read_probe_facts(probe), DriverListing("", "")))


class OneFile:
    """A phone that holds one file and runs the two commands that identity needs."""

    name, base_dir = "toy-1", "/base"

    def __init__(self, content: bytes | None = None, *, rival: bytes | None = None, broken: bool = False) -> None:
        self.content = content
        self.rival = rival
        self.broken = broken
        self.writes = 0
        self.noise = b""
        self.properties = {"ro.serialno": "TOY1", "ro.product.model": "Toy 3", "ro.soc.model": "TS900"}

    def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
        if argv[0] == "cat":
            assert argv[1] == PATH
            if self.content is None:
                return ShellResult(1, b"", b"cat: No such file or directory")
            return ShellResult(0, self.content, b"")
        assert argv[:2] == ["sh", "-c"]
        assert argv[4] == PATH
        if "getprop" in argv[2]:
            props = b"".join(f"[{key}]: [{value}]\n".encode() for key, value in self.properties.items())
            return ShellResult(0, self.noise + b"file\n" + (self.content or b"") + b"\nfacts\n" + props + b"end\n", b"")
        self.writes += 1
        if self.rival is not None and argv[5] == "keep":
            self.content = self.rival
        elif not self.broken:
            self.content = stdin
        return ShellResult(0, b"", b"")


def meet(phone: OneFile, facts: Facts) -> Identity:
    return identify(cast("Transport", phone), facts, Deadline(5, "identity", "toy-1"))


def held(facts: Facts, **over: Any) -> bytes:
    return json.dumps({"id": ID, "hardware": hardware_fingerprint(facts), **over}).encode()


def test_a_new_phone_gets_an_id_that_stays(facts: Facts) -> None:
    phone = OneFile()
    first = meet(phone, facts)
    assert first.note == "first seen"
    assert uuid.UUID(first.id).version == 4
    assert meet(phone, facts) == Identity(first.id)
    assert phone.writes == 1


def test_a_known_phone_keeps_its_id_without_a_write(facts: Facts) -> None:
    phone = OneFile(held(facts))
    assert meet(phone, facts) == Identity(ID)
    assert phone.writes == 0


@pytest.mark.parametrize(
    "change",
    [
        {"boot_id": "b2"},
        {"fingerprint": "update"},
        {"android_release": "16"},
        {"kernel": "6.6"},
        {"available_bytes": 1},
    ],
)
def test_what_changes_on_the_same_phone_does_not_change_who_it_is(facts: Facts, change: dict[str, Any]) -> None:
    assert meet(OneFile(held(facts)), replace(facts, **change)).id == ID


@pytest.mark.parametrize(
    "change", [{"serialno": "TOY2"}, {"model": "Toy 4"}, {"soc": "TS1000"}, {"cores": 8}, {"ram_bytes": 12 << 30}]
)
def test_a_file_that_was_copied_from_other_hardware_is_replaced(facts: Facts, change: dict[str, Any]) -> None:
    phone = OneFile(held(facts))
    now = replace(facts, **change)
    told = {"ro.serialno": now.serialno, "ro.product.model": now.model, "ro.soc.model": now.soc}
    phone.properties = {key: str(value) for key, value in told.items()}
    found = meet(phone, now)
    assert found.id != ID
    assert found.note == "its identity file was damaged or came from another phone"
    assert phone.writes == 1


DAMAGED = [
    b"",
    b"\0" * 64,
    b"\xff\xfe",
    b"null",
    b"[]",
    b"3",
    b'"x"',
    b"{}",
    b'{"id": 3}',
    b'{"id": null, "hardware": "x"}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("content", DAMAGED, ids=lambda content: repr(content[:12]))
def test_a_damaged_file_is_replaced(facts: Facts, content: bytes) -> None:
    assert parse_identity(content, hardware_fingerprint(facts)) is None
    phone = OneFile(content)
    found = meet(phone, facts)
    assert found.note == "its identity file was damaged or came from another phone"
    assert meet(phone, facts) == Identity(found.id)


def test_an_id_that_is_no_uuid_is_damage(facts: Facts) -> None:
    assert parse_identity(held(facts, id="../../x"), hardware_fingerprint(facts)) is None
    assert parse_identity(held(facts, id=ID.upper()), hardware_fingerprint(facts)) == Identity(ID)


def test_a_host_that_was_faster_gives_the_id(facts: Facts) -> None:
    assert meet(OneFile(rival=held(facts)), facts) == Identity(ID)


def test_a_phone_that_does_not_keep_the_file_is_an_error(facts: Facts) -> None:
    with pytest.raises(ShellError, match="toy-1: cat ended with 1"):
        meet(OneFile(broken=True), facts)


def test_a_connection_that_loses_or_adds_bytes_does_not_cost_a_phone_its_name(facts: Facts) -> None:
    held = json.dumps({"id": ID, "hardware": hardware_fingerprint(facts)}).encode()
    garbled = OneFile(b"\xff\xfe" + held)
    garbled.noise = b"\xff\xfe"
    with pytest.raises(AdbFailedError, match="does not arrive as it was sent"):
        meet(garbled, facts)
    short = OneFile(held)
    with pytest.raises(AdbFailedError, match="does not arrive as it was sent"):
        meet(short, replace(facts, serialno=None))
    with pytest.raises(AdbFailedError, match="does not arrive as it was sent"):
        meet(short, replace(facts, soc=None))
    assert (garbled.writes, short.writes) == (0, 0)
