"""Phones that are met without a phone: what adb lists and what is met are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from harness.adb.server import AdbServer, TransportInfo
from harness.bench.phone import ConnectedPhone, Terms
from harness.core.errors import ConfigError, FarmError, PhoneLostError
from harness.core.ids import utc_now
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.fleet import opening
from harness.fleet.opening import Fleet, open_fleet
from harness.fleet.states import Why
from harness.fleet.words import read_words
from harness.phone.drivers import DriverListing
from harness.phone.facts import Told, build_facts
from harness.phone.health import HealthStore
from harness.phone.identity import Identity
from harness.phone.probed import read_probe_facts
from harness.phone.tier import Placement
from harness.plan.tiers import TierName

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


def line(serial: str, state: str = "device", number: int = 1, usb: str | None = "1-1", model: str | None = None) -> Any:
    return TransportInfo(serial, state, number, usb, model)


def phone(endpoint: Endpoint, *, phone_id: str = "", boot: str = "boot", tier: TierName = "mid") -> ConnectedPhone:
    facts = replace(FACTS, model=f"Toy {endpoint.name}", boot_id=boot, sdk=34)
    nothing = cast(Any, None)
    who = Identity(phone_id or "id-" + endpoint.name.replace("@", "-"))
    return ConnectedPhone(endpoint, nothing, nothing, facts, who, Placement(tier, "made up", None))


class Lab:
    """Opens fleets of phones that are all well, but for those that ``meets`` says otherwise of."""

    def __init__(self, folder: Path) -> None:
        self.health = HealthStore(folder)
        self.meets: dict[str, Callable[[Endpoint], ConnectedPhone | Why]] = {}
        self.claims: dict[str, Callable[[], None]] = {}
        self.met: list[str] = []
        self.taken: list[str] = []

    def open(self, spec: str, *lines: TransportInfo) -> Fleet:
        def meet(endpoint: Endpoint, _rules: object, _say: object, _terms: Terms) -> ConnectedPhone | Why:
            self.met.append(endpoint.name)
            return self.meets.get(endpoint.name, phone)(endpoint)

        def claim(one: ConnectedPhone, _say: object, _terms: Terms) -> ConnectedPhone:
            self.taken.append(one.name)
            self.claims.get(one.name, lambda: None)()
            return one

        server = Server("127.0.0.1", 5037, lines)
        words = read_words(spec)
        return open_fleet(words, lambda *_: None, servers=[server], health=self.health, meet=meet, claim=claim)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def names(fleet: Fleet) -> list[str]:
    return [one.name for one in fleet.phones]


def left(fleet: Fleet) -> dict[str, str]:
    return {one.name: one.code for one in fleet.left_out}


def fails(endpoint: Endpoint) -> ConnectedPhone | Why:
    raise PhoneLostError(endpoint.name, "it went", remedy="look for it")


def test_all_takes_what_can_be_used_and_names_the_rest(lab: Lab) -> None:
    lab.meets["gone"] = fails
    lab.meets["young"] = lambda _: Why("booting", "it boots", "wait")
    fleet = lab.open("all", line("a"), line("gone"), line("young"), line("shy", "unauthorized"), line("b"))
    assert names(fleet) == ["a", "b"]
    assert left(fleet) == {"gone": "device_lost", "young": "booting", "shy": "unauthorized"}
    assert fleet.left_out[0].reason == "it went"
    assert fleet.unusable == fleet.left_out


def test_a_phone_that_nobody_asked_for_is_neither_touched_nor_named(lab: Lab) -> None:
    fleet = lab.open("a", line("a"), line("b"), line("c", "offline"))
    assert (names(fleet), left(fleet), lab.met) == (["a"], {}, ["a"])


def test_only_what_takes_part_is_taken(lab: Lab) -> None:
    lab.meets |= dict.fromkeys(("by-net", "by-cable"), lambda endpoint: phone(endpoint, phone_id="one"))
    lab.meets["fast"] = lambda endpoint: phone(endpoint, tier="high")
    lab.health.hold("id-held", "held", "held", "", None, "person")
    lab.open("tier=mid", line("by-net", usb=None), line("by-cable"), line("fast"), line("held"), line("a"))
    assert sorted(lab.met) == ["a", "by-cable", "by-net", "fast", "held"]
    assert sorted(lab.taken) == ["a", "by-cable"]


def test_a_phone_that_somebody_has_is_left_out_when_it_is_to_be_taken(lab: Lab) -> None:
    def claim() -> None:
        raise FarmError("a: in use by ada", remedy="wait", reason=Reason.BUSY)

    lab.claims["a"] = claim
    fleet = lab.open("all", line("a"))
    assert (names(fleet), left(fleet), fleet.left_out[0].reason) == ([], {"a": "busy"}, "in use by ada")


def test_two_phones_of_one_serial_take_part_both(lab: Lab) -> None:
    fleet = lab.open("same", line("same", number=3), line("same", number=4), line("other"))
    assert names(fleet) == ["same@3", "same@4"]
    assert [one.endpoint.extra["transport_id"] for one in fleet.phones] == ["3", "4"]


def test_a_model_is_told_from_adbs_list_without_touching_the_others(lab: Lab) -> None:
    fleet = lab.open("model=toy*", line("a", model="Toy_a"), line("b", model="Doll"), line("c"))
    assert names(fleet) == ["a", "c"]
    assert lab.met == ["a", "c"]


def test_a_tier_is_judged_after_connecting(lab: Lab) -> None:
    lab.meets["b"] = lambda endpoint: phone(endpoint, tier="high")
    fleet = lab.open("tier=high", line("a"), line("b"))
    assert (names(fleet), left(fleet)) == (["b"], {})


def test_a_phone_that_might_fit_and_cannot_be_asked_is_named(lab: Lab) -> None:
    fleet = lab.open("tier=high", line("a", "offline"))
    assert (names(fleet), left(fleet)) == ([], {"a": "device_offline"})


def test_a_filter_that_fits_nobody_lists_what_is_there(lab: Lab) -> None:
    with pytest.raises(ConfigError, match=r"tier=high: no phone is meant by it; there are: a \(device, Toy_a\)"):
        lab.open("tier=high", line("a", model="Toy_a"))


def test_a_name_nobody_has_touches_no_phone(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="no phone has this serial"):
        lab.open("a,z", line("a"))
    assert lab.met == []


def test_not_leaves_out_before_connecting_where_adbs_list_is_enough(lab: Lab) -> None:
    fleet = lab.open("not:usb:1-2,not:model=Toy*", line("a"), line("b", usb="1-2"), line("c", model="Toy_c"))
    assert left(fleet) == {"b": "excluded", "c": "excluded", "a": "excluded"}  # a is a "Toy a" after all
    assert lab.met == ["a"]
    assert fleet.unusable == []


def test_a_phone_by_cable_and_by_network_takes_part_once_by_cable(lab: Lab) -> None:
    lab.meets |= dict.fromkeys(("10.0.0.7:5555", "R58M"), lambda endpoint: phone(endpoint, phone_id="one"))
    fleet = lab.open("all", line("10.0.0.7:5555", usb=None), line("R58M"))
    assert (names(fleet), left(fleet)) == (["R58M"], {"10.0.0.7:5555": "same_phone"})
    assert fleet.unusable == []


def test_a_held_phone_is_left_out_with_who_why_and_until_when(lab: Lab) -> None:
    until = utc_now() + timedelta(hours=2)
    lab.health.hold("id-a", "a", "device_lost", "gone amid a push", until)
    fleet = lab.open("all", line("a"), line("b"))
    assert names(fleet) == ["b"]
    [held] = fleet.left_out
    assert (held.code, held.remedy) == ("held", "mnn-farm devices release a")
    assert held.reason == f"quarantined until {until:%Y-%m-%dT%H:%M:%SZ}: gone amid a push"


def test_a_hold_that_is_over_holds_nobody(lab: Lab) -> None:
    lab.health.hold("id-a", "a", "held", "", utc_now() - timedelta(seconds=1), "person")
    assert names(lab.open("all", line("a"))) == ["a"]


def test_phones_that_were_taken_are_the_fleets_when_another_breaks_off_the_opening(lab: Lab) -> None:
    def breaks() -> None:
        raise KeyboardInterrupt

    lab.claims["b"] = breaks
    left: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "leave_as_found", lambda one, _say: left.append(one.name))
        with pytest.raises(KeyboardInterrupt):
            lab.open("all", line("a"), line("b"), line("c"))
    assert sorted(left) == ["a", "c"]
