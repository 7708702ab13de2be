from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from harness.adb.server import AdbServer
from harness.adb.transport import AdbTransport
from harness.core.provider import Endpoint
from harness.selfcheck import device
from harness.selfcheck.device import subject_called


def means(monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> None:
    @contextmanager
    def one_phone(_word: str) -> Iterator[Endpoint]:
        yield endpoint

    monkeypatch.setattr(device, "one_phone", one_phone)


def test_a_phone_on_adb_is_reached_over_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    means(monkeypatch, Endpoint("toy", "adb", "10.0.0.7", 5037, "serial-0"))
    with subject_called("toy") as subject:
        assert isinstance(subject.transport, AdbTransport)
        assert (subject.serial, subject.server) == ("serial-0", AdbServer("10.0.0.7", 5037))


def test_a_provider_with_a_way_of_its_own_is_reached_by_that(monkeypatch: pytest.MonkeyPatch) -> None:
    means(monkeypatch, Endpoint("toy", "pretended"))
    own = SimpleNamespace(name="toy", serial="own", base_dir="/our/own/folder")
    monkeypatch.setattr(device, "load_provider", lambda _name: SimpleNamespace(transport=lambda _endpoint: own))
    with subject_called("pretended:") as subject:
        assert (subject.transport, subject.server) == (own, None)
