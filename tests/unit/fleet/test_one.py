from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from harness.adb.server import AdbServer, TransportInfo
from harness.core.errors import ConfigError, PhoneLostError, PhoneOfflineError, UnauthorizedError
from harness.core.provider import Endpoint
from harness.core.transport import Transport
from harness.fleet import one, words
from harness.fleet.one import one_phone
from harness.phone.drivers import DriverListing
from harness.phone.facts import Facts, Told, build_facts
from harness.phone.probed import read_probe_facts

FACTS = build_facts(Told({}, read_probe_facts({}), DriverListing("", "")))


@dataclass(frozen=True)
class Server(AdbServer):
    listed: tuple[TransportInfo, ...] = ()

    def listens(self) -> bool:
        return True

    def version(self) -> int:
        return 41

    def transports(self) -> list[TransportInfo]:
        return list(self.listed)


LAB = Server(
    "127.0.0.1",
    5037,
    (
        TransportInfo("A1", "device", 1, "1-4", "Toy_3"),
        TransportInfo("B2", "offline", 2, None, None),
        TransportInfo("C3", "unauthorized", 3, None, None),
        TransportInfo("D4", "device", 4, None, None),
        TransportInfo("E5", "device", 5, None, None),
    ),
)
SDK = {"A1": 34, "D4": 29}


@pytest.fixture(autouse=True)
def facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phones tell their API level; E5 goes away when it is asked."""

    def told(name: str) -> Facts:
        if name not in SDK:
            raise PhoneLostError(name, "it went")
        return replace(FACTS, sdk=SDK[name], model=f"Toy {name}")

    monkeypatch.setattr(one, "open_transport", lambda endpoint: endpoint.name)
    monkeypatch.setattr(one, "facts_shown", told)


def found(word: str) -> str:
    with one_phone(word, [LAB]) as endpoint:
        return endpoint.name


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("A1", "A1"),
        ("usb:1-4", "A1"),
        ("transport:4", "D4"),
        ("model=toy_3", "A1"),
        ("sdk=30+", "A1"),
        ("sdk=29", "D4"),
    ],
)
def test_any_word_that_means_one_phone_finds_it(word: str, name: str) -> None:
    assert found(word) == name


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nobody", "^--device nobody: adb lists no such phone: it lists A1 \\(device, Toy_3\\), B2 \\(offline\\), "),
        ("sdk=36", "^--device sdk=36: adb lists no such phone: "),
        ("model=toy*", "^--device model=toy\\* means 2 phones: name one: A1 \\(device, Toy_3\\), D4 \\(device\\)$"),
        ("all", "^--device all means 5 phones: name one: "),
        ("A1,D4", "^--device A1,D4: one word for one phone is wanted: "),
        ("not:A1", "^--device not:A1: one word for one phone is wanted: "),
        ("tier=huge", "^--device tier=huge: tiers are high, mid, low$"),
        ("", "^--device names no phone: "),
    ],
)
def test_a_word_that_means_no_phone_or_several_is_refused_with_what_there_is(word: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        found(word)


def test_a_phone_that_cannot_be_used_says_why() -> None:
    with pytest.raises(PhoneOfflineError, match="B2: adb lists it as offline: replug it"):
        found("B2")
    with pytest.raises(UnauthorizedError, match="C3: adb lists it as unauthorized: unlock the phone"):
        found("C3")


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
    monkeypatch.setattr(words, "provider_names", lambda: ["pretended"])
    for module in (words, one):
        monkeypatch.setattr(module, "load_provider", lambda _name: made)
    return made


def test_a_providers_phone_is_up_meanwhile_and_gone_afterwards(provider: Pretended) -> None:
    with one_phone("pretended:1") as endpoint:
        assert (endpoint.name, provider.stopped) == ("p-0", False)
    assert provider.stopped


def test_a_providers_word_that_means_several_phones_is_refused_and_they_are_gone(provider: Pretended) -> None:
    with pytest.raises(ConfigError, match="--device pretended:2 means 2 phones: name one"):
        found("pretended:2")
    assert provider.stopped


def test_a_word_that_the_provider_does_not_understand_is_refused_with_its_own(provider: Pretended) -> None:
    with pytest.raises(ConfigError, match="--device pretended:x: 'x' is no number"):
        found("pretended:x")
