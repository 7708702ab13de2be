from __future__ import annotations

import pytest

from harness.core.errors import ConfigError
from harness.virtual.faults import KINDS, parse_fault


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("offline", None), ("slow", 1_000_000), ("slow=0", 0), ("cut", None), ("cut=1.5", 1.5), ("cut-run", 0.5),
        ("cut-push=5000000000", 5_000_000_000), ("clock-jumped=-86400", -86400.0), ("corrupt=/data/a=b", "/data/a=b"),
        ("replaced=low", "low"), ("corrupt", None), ("sleeps-alone", 0.3), ("affinity-lost", None),
    ],
)  # fmt: skip
def test_a_fault_is_read_with_its_argument_or_its_default(text: str, argument: object) -> None:
    fault = parse_fault(text)
    assert (fault.kind.name, fault.argument) == (text.partition("=")[0], argument)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no fault is called ''"),
        ("cut-push", "the fault cut-push needs an argument: say cut-push=BYTES"),
        ("offline=", "the fault offline takes no argument"),
        ("slow=-1", "'-1' is no number of bytes"),
        ("slow=١", "is no number of bytes"),
        ("cut=nan", "'nan' is no number of seconds"),
        ("corrupt=a", "'a' is no absolute path on the phone"),
        ("replaced=../x", "'../x' is no name of a phone description"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_say_instead(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fault(text)
    assert said in str(caught.value)


def test_every_fault_says_what_it_means() -> None:
    assert all(kind.means and (bool(kind.argument) or kind.default is None) for kind in KINDS.values())
    assert len(KINDS) == 24
