from __future__ import annotations

import pytest

from harness.adb.server import AdbServer, TransportInfo
from harness.core.errors import ConfigError
from harness.core.provider import Endpoint
from harness.fleet.choose import Traits, check_filters, check_names, fits, name_all, unwanted_by, wanted
from harness.fleet.words import read_words

HERE, LAB = AdbServer("127.0.0.1", 5037), AdbServer("lab2", 5037)
MET = Traits("R58M", "R58M", model="Toy 3-x", socs=("SM8650", "pineapple"), tier="high", sdk=34, known=True)


def info(serial: str, transport: int | None = 1) -> TransportInfo:
    return TransportInfo(serial, "device", transport, None, None)


def names(*listed: tuple[AdbServer, TransportInfo]) -> list[str]:
    return [one.name for one in name_all(listed)]


def answer(word: str, phone: Traits) -> bool | None:
    return fits(read_words(word).wanted[0], phone)


def test_a_phone_is_named_by_its_serial() -> None:
    assert names((HERE, info("a")), (LAB, info("b"))) == ["a", "b"]


def test_equal_serials_on_one_server_are_two_phones_by_transport() -> None:
    assert names((HERE, info("a", 3)), (HERE, info("a", 4)), (HERE, info("b", 5))) == ["a@3", "a@4", "b"]


def test_equal_serials_on_two_servers_are_two_phones_by_server() -> None:
    listed = [(HERE, info("a", 3)), (LAB, info("a", 3)), (LAB, info("c", 4)), (LAB, info("c", 5))]
    assert names(*listed) == ["a@127.0.0.1:5037", "a@lab2:5037", "c@lab2:5037@4", "c@lab2:5037@5"]


def test_a_phone_is_reached_by_its_transport_only_where_another_has_its_serial() -> None:
    [third, fourth, other] = name_all([(LAB, info("a", 3)), (LAB, info("a", 4)), (HERE, info("a", 5))])
    assert third.endpoint == Endpoint("a@lab2:5037@3", "adb", "lab2", 5037, "a", extra={"transport_id": "3"})
    assert fourth.endpoint.extra == {"transport_id": "4"}
    assert other.endpoint == Endpoint("a@127.0.0.1:5037", "adb", "127.0.0.1", 5037, "a")


def test_that_a_server_was_named_goes_with_its_phones() -> None:
    [listed] = name_all([(LAB, info("a", 3))], named=True)
    assert listed.endpoint == Endpoint("a", "adb", "lab2", 5037, "a", extra={"server": "named"})


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("all", True),
        ("R58M", True),
        ("R58", False),
        ("a@3", True),
        ("usb:1-4", True),
        ("usb:1-4.2", False),
        ("transport:3", True),
        ("transport:33", False),
        ("model=toy*", True),
        ("model=doll", False),
        ("soc=*", None),
        ("tier=high", None),
        ("sdk=1+", None),
    ],
)
def test_before_it_is_connected_a_phone_is_judged_by_adbs_list(word: str, expected: bool | None) -> None:
    assert answer(word, Traits("a@3", "R58M", usb="1-4", transport_id=3, model="Toy_3")) is expected


def test_without_a_model_in_adbs_list_the_model_is_unknown() -> None:
    assert answer("model=*", Traits("a", "a")) is None


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("model=Toy 3-x", True),
        ("model=toy_3*", True),
        ("model=TOY-3?X", True),
        ("model=*[23]-x", True),
        ("model=Toy", False),
        ("soc=sm8?50", True),
        ("soc=Pine*", True),
        ("soc=sm", False),
        ("tier=high", True),
        ("tier=mid", False),
        ("sdk=34", True),
        ("sdk=33", False),
        ("sdk=33+", True),
        ("sdk=35+", False),
    ],
)
def test_afterwards_by_its_facts(word: str, expected: bool) -> None:
    assert answer(word, MET) is expected


@pytest.mark.parametrize("word", ["model=*", "soc=*", "sdk=1+", "tier=low"])
def test_what_a_connected_phone_does_not_tell_fits_no_filter(word: str) -> None:
    assert answer(word, Traits("a", "a", known=True)) is False


def test_a_phone_over_the_network_answers_to_its_own_serial_too() -> None:
    assert answer("R58M", Traits("10.0.0.7:5555", "10.0.0.7:5555", serialno="R58M", known=True)) is True


def test_words_are_a_union_in_which_yes_beats_unknown_beats_no() -> None:
    unmet = Traits("a", "a")
    assert wanted(read_words("a,tier=low").wanted, unmet) is True
    assert wanted(read_words("b,tier=low").wanted, unmet) is None
    assert wanted(read_words("b,usb:1").wanted, unmet) is False


def test_all_is_adbs_phones_and_no_providers() -> None:
    assert answer("all", Traits("host", from_adb=False)) is False


def test_not_takes_away_what_is_known_to_fit() -> None:
    words = read_words("not:tier=high,not:b")
    assert str(unwanted_by(words, MET)) == "tier=high"
    assert unwanted_by(words, Traits("a", "a")) is None
    assert str(unwanted_by(words, Traits("b", "b"))) == "b"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("z", r"--devices z: no phone has this serial; there are: a \(offline\): use one of these"),
        ("a,not:z", r"--devices not:z: no phone has this serial"),
        ("usb:9", r"--devices usb:9: no phone is meant by it; there are: a \(offline\)"),
        ("all,not:transport:9", "--devices not:transport:9: no phone is meant by it"),
    ],
)
def test_a_name_nobody_has_lists_what_is_there(spec: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check_names(read_words(spec), [Traits("a", "a")], ["a (offline)"])


def test_a_providers_phone_can_be_named_to_leave_it_out_but_not_to_choose_it() -> None:
    there = [Traits("virtual-high-1", from_adb=False)]
    check_names(read_words("virtual:2,not:virtual-high-1"), there, [])
    with pytest.raises(ConfigError, match="there are: none"):
        check_names(read_words("virtual-high-1"), there, [])


def test_a_filter_that_fits_nobody_is_refused_unless_somebody_might() -> None:
    words = read_words("model=Doll*")
    check_filters(words, [MET, Traits("b", "b")], [])
    with pytest.raises(ConfigError, match=r"--devices model=Doll\*: no phone is meant by it; there are: R58M"):
        check_filters(words, [MET], ["R58M (device, Toy_3)"])
    check_filters(read_words("all,not:model=Doll*"), [MET], [])
