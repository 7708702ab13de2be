from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.lab.address import Address, Keys, is_loopback, read_address


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text("")
    return tmp_path


def test_this_computers_own_address_needs_no_keys() -> None:
    assert read_address("tcp://127.0.0.1:8786", None) == Address("tcp", "127.0.0.1", 8786)
    assert str(read_address("tcp://[::1]:8786", None)) == "tcp://[::1]:8786"


def test_any_other_address_needs_tls(keys: Path) -> None:
    assert read_address("tls://lab-server:8786", keys) == Address("tls", "lab-server", 8786, Keys(keys))


@pytest.mark.parametrize("host", ["lab-server", "192.0.2.7", "[::]", "[2001:db8::1]", "localhost.example.org"])
def test_an_open_address_without_tls_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="without TLS anybody who reaches this address could run programs"):
        read_address(f"tcp://{host}:8786", None)


@pytest.mark.parametrize(
    ("text", "with_keys", "says"),
    [
        ("127.0.0.1:8786", False, "no address of a scheduler"),
        ("tcp://127.0.0.1:0", False, "no address of a scheduler"),
        ("tls://lab:70000", True, "no address of a scheduler"),
        ("tls://127.0.0.1:8786", False, "TLS needs keys"),
        ("tcp://127.0.0.1:8786", True, "begins with tls://"),
    ],
)
def test_what_is_wrong_is_said(text: str, with_keys: bool, says: str, keys: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        read_address(text, keys if with_keys else None)


def test_a_missing_key_is_named(keys: Path) -> None:
    (keys / "key.pem").unlink()
    with pytest.raises(ConfigError, match=r"there is no key\.pem in it"):
        read_address("tls://lab:8786", keys)


def test_a_worker_without_tls_listens_to_this_computer_only(keys: Path) -> None:
    assert read_address("tcp://localhost:8786", None).listen_host == "127.0.0.1"
    assert read_address("tls://lab:8786", keys).listen_host is None


def test_with_keys_every_side_has_to_show_a_certificate(keys: Path) -> None:
    security = read_address("tls://lab:8786", keys).security()
    assert security.require_encryption is True
    assert (security.tls_ca_file, security.tls_worker_key) == (str(keys / "ca.pem"), str(keys / "key.pem"))


def test_only_addresses_that_cannot_mean_another_computer_are_its_own() -> None:
    assert [is_loopback(host) for host in ("localhost", "127.9.9.9", "::1", "10.0.0.1", "lab")] == [
        True, True, True, False, False,
    ]  # fmt: skip
