"""Which probe a phone gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.transport import ShellResult, Transport
from harness.payload.probe import Probe
from harness.payload.probe_build import build_probe, source_hash


@dataclass
class Phone:
    """A phone that is only a machine's name: it runs nothing but what is pushed."""

    machine: str
    name: str = "phone"
    base_dir: str = "/data/local/tmp/mnn-farm"
    pushed: list[Any] = field(default_factory=list)

    def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
        if argv[0] == "uname":
            return ShellResult(0, f"{self.machine}\n".encode(), b"")
        if argv[-1] == "version" and self.pushed:
            return ShellResult(0, f'{{"probe":1,"source":"{source_hash()}"}}\n'.encode(), b"")
        return ShellResult(127 if argv[-1] == "version" else 0, b"", b"")

    def push(self, items: Sequence[Any], *, deadline: Deadline, progress: object = None) -> None:
        self.pushed += items


@pytest.mark.parametrize(
    ("machine", "abi"),
    [("aarch64", "arm64-v8a"), ("armv7l", "armeabi-v7a"), ("armv8l", "armeabi-v7a"), ("x86_64", "x86_64")],
)
def test_the_kernel_decides_which_program_a_phone_gets(machine: str, abi: str) -> None:
    phone = Phone(machine)
    probe = Probe.install(cast("Transport", phone))
    [item] = phone.pushed
    assert item.local == build_probe(abi)
    assert probe.path.endswith(f"-{abi}")


def test_a_phone_of_another_machine_is_refused_with_what_there_is() -> None:
    with pytest.raises(PhoneError, match="runs on its machine 'riscv64': known are aarch64, armv7l"):
        Probe.install(cast("Transport", Phone("riscv64")))
