"""How often a phone is asked: for its facts, and around a cell. Times are noise here; calls are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.known import plan_of, runners
from harness.adb.shell import AdbShellStream
from harness.adb.transport import AdbTransport
from harness.bench.context import RunContext
from harness.bench.gather import gather_facts
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint
from harness.core.transport import ShellResult
from harness.payload.bundle import read_bundle
from harness.payload.models import find_model, read_model
from harness.payload.probe import Probe
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.store.runfolder import RunFolder


class Counting(AdbTransport):
    """Notes every command."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.commands: list[list[str]] = []

    def shell(
        self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"", most: int | None = None
    ) -> ShellResult:
        self.commands.append(list(argv))
        return super().shell(argv, deadline=deadline, stdin=stdin, most=most)

    def stream(
        self, argv: Sequence[str], *, deadline: Deadline, idle_s: float | None = None
    ) -> AbstractContextManager[AdbShellStream]:
        self.commands.append(list(argv))
        return super().stream(argv, deadline=deadline, idle_s=idle_s)

    def forget(self) -> None:
        self.commands.clear()

    def services(self) -> list[str]:
        """What was asked of Android, by its first words."""
        words = [" ".join(argv) for argv in self.commands]
        return [
            name for text in words for name in ("dumpsys battery", "dumpsys thermalservice", "logcat") if name in text
        ]


@pytest.fixture
def phone(virtual_phone: Endpoint) -> Iterator[tuple[ConnectedPhone, Counting]]:
    connected = connect(virtual_phone, load_tier_rules())
    transport = Counting(virtual_phone)
    counted = replace(connected, transport=transport, probe=Probe(transport, connected.probe.path))
    yield counted, transport
    leave_as_found(connected, lambda _: None)


def test_the_facts_of_a_phone_take_three_calls(phone: tuple[ConnectedPhone, Counting]) -> None:
    connected, transport = phone
    facts = gather_facts(transport, connected.probe, Deadline(60, "reading facts", "the phone"))
    assert len(transport.commands) == 3
    assert facts.battery is not None
    assert facts.thermal is not None
    assert (facts.gles, facts.python_mnn, facts.sdk) == (
        connected.facts.gles, connected.facts.python_mnn, connected.facts.sdk
    )  # fmt: skip
    assert facts.python_mnn is not None


def test_a_cell_whose_payload_is_there_asks_android_once(
    phone: tuple[ConnectedPhone, Counting], tmp_path: Path
) -> None:
    connected, transport = phone
    plan = plan_of(prepare={})
    folder = RunFolder.create(tmp_path / "run")
    models = {name: read_model(find_model(name)) for name in plan.models}
    context = RunContext("calls", folder.path, plan, read_bundle(runners() / "synthetic"), models)
    session = PhoneSession(connected, context, lambda _: None)
    cell = cells_of(plan)[0]
    records = []
    for _ in range(3):
        transport.forget()
        records.append(session.run_cell(cell))
    assert [record.reason for record in records] == [None] * 3
    assert sorted(transport.services()) == ["dumpsys battery", "dumpsys thermalservice", "logcat"]
    assert len(transport.commands) <= 11, [argv[:4] for argv in transport.commands]
    battery = [record.thermal for record in records]
    assert all(thermal is not None for thermal in battery), "the record has what it had before"
