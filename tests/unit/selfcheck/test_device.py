from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.adb.server import AdbServer, TransportInfo
from harness.adb.transport import AdbTransport
from harness.core.errors import ConfigError, PhoneOfflineError, UnauthorizedError
from harness.core.provider import Endpoint
from harness.core.transport import Transport
from harness.selfcheck import device
from harness.selfcheck.device import subject_called


class Pretended:
    """A provider of as many phones as its word says."""

    def __init__(self) -> None:
        self.stopped = False

    def check(self, word: str) -> str | None:
        return None if word.isdigit() else f"{word!r} is no number"

    def start(self, words: Sequence[str]) -> list[Endpoint]:
        return [Endpoint(f"p-{i}", "pretended", "10.0.0.7", 5037, f"serial-{i}") for i in range(int(words[0]))]

    def stop(self) -> None:
        self.stopped = True

    def transport(self, endpoint: Endpoint) -> Transport | None:
        return None


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    made = Pretended()
    monkeypatch.setattr(device, "provider_names", lambda: ["pretended"])
    monkeypatch.setattr(device, "load_provider", lambda _name: made)
    return made


def test_a_providers_phone_is_reached_over_its_adb_server_and_gone_afterwards(provider: Pretended) -> None:
    with subject_called("pretended:1") as subject:
        assert isinstance(subject.transport, AdbTransport)
        assert (subject.serial, subject.server) == ("serial-0", AdbServer("10.0.0.7", 5037))
        assert not provider.stopped
    assert provider.stopped


def test_a_word_that_means_several_phones_is_refused_and_they_are_gone(provider: Pretended) -> None:
    with (
        pytest.raises(ConfigError, match="--device pretended:2 means 2 phones: name one"),
        subject_called("pretended:2"),
    ):
        pass
    assert provider.stopped


def test_a_word_that_the_provider_does_not_understand_is_refused_with_its_own(provider: Pretended) -> None:
    with pytest.raises(ConfigError, match="--device pretended:x: 'x' is no number"), subject_called("pretended:x"):
        pass


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> None:
    states = {"A1": "device", "B2": "offline", "C3": "unauthorized"}
    infos = [TransportInfo(serial, state, number, None, None) for number, (serial, state) in enumerate(states.items())]
    monkeypatch.setattr(device, "ensure_server", lambda _server: 41)
    monkeypatch.setattr(AdbServer, "transports", lambda _self: infos)


@pytest.mark.usefixtures("listing")
@pytest.mark.parametrize(
    ("serial", "error", "said"),
    [
        ("nobody", ConfigError, "lists no phone 'nobody': it lists A1, B2, C3"),
        ("B2", PhoneOfflineError, "adb lists it as 'offline'"),
        ("C3", UnauthorizedError, "adb is not authorized: unlock the phone"),
    ],
)
def test_a_phone_that_cannot_be_used_says_why(serial: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said), subject_called(serial):
        pass


@pytest.mark.usefixtures("listing")
def test_a_serial_that_adb_lists_is_that_phone() -> None:
    with subject_called("A1") as subject:
        assert (subject.serial, subject.transport.name) == ("A1", "A1")
