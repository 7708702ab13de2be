from __future__ import annotations

import pytest

from harness.virtual.features import banner, features, terminal_always
from harness.virtual.profile import load_profile


@pytest.mark.parametrize(
    ("sdk", "offered"),
    [(23, set()), (24, {"shell_v2", "cmd"}), (28, {"shell_v2", "cmd", "stat_v2"})],
)
def test_old_phones_offer_what_their_adbd_had(sdk: int, offered: set[str]) -> None:
    assert set(features(sdk)) == offered


def test_features_are_only_added() -> None:
    for sdk in range(23, 37):
        assert set(features(sdk)) <= set(features(sdk + 1))


def test_a_phone_without_features_has_no_list_in_its_banner() -> None:
    assert "features" not in banner(load_profile("android6"))
    assert banner(load_profile("high")).endswith("sendrecv_v2,sendrecv_v2_dry_run_send")


def test_only_android_6_puts_commands_on_a_terminal() -> None:
    assert [terminal_always(sdk) for sdk in (23, 24, 34)] == [True, False, False]
