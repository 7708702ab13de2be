from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.bench.status import read_status
from harness.core.errors import PhoneLostError
from harness.core.transport import ShellResult
from harness.phone.thermalservice import Status

DUMP = b"IsStatusOverride: false\nThermalEventListeners:\n\tcallbacks: 1\nThermal Status: 2\nHAL Ready: true\n"


class Phone:
    """A phone that answers one thing."""

    name = "toy-1"

    def __init__(self, answer: bytes | Exception) -> None:
        self._answer = answer

    def shell(self, argv: Sequence[str], **_: Any) -> ShellResult:
        assert argv == ["dumpsys", "thermalservice"]
        if isinstance(self._answer, Exception):
            raise self._answer
        return ShellResult(exit_code=0, stdout=self._answer, stderr=b"")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (DUMP, Status(2)),
        (DUMP.replace(b"\n", b"\r\n"), Status(2)),
        (DUMP.replace(b"Override: false", b"Override: true"), Status(None, "somebody set the thermal status by hand")),
        (
            b"Can't find service: thermalservice\n",
            Status(None, "this Android has no such service"),
        ),
        (b"", Status(None, "it says 'nothing'")),
        (b"Thermal Status: 9\n", Status(None, "it says 'Thermal Status: 9'")),
    ],
    ids=["told", "with CRLF", "set by hand", "no service", "nothing", "nonsense"],
)
def test_the_status_or_why_it_is_not_known(answer: bytes, status: Status) -> None:
    assert read_status(Phone(answer)) == status  # type: ignore[arg-type]


def test_a_phone_that_was_lost_costs_only_this_figure() -> None:
    found = read_status(Phone(PhoneLostError("toy-1", "adb does not list it")))  # type: ignore[arg-type]
    assert found.value is None
    assert "could not be asked" in found.why
