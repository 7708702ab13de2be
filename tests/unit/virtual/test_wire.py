from __future__ import annotations

import pytest

from harness.core.errors import ConfigError, DeadlineError, HarnessError, HostError
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.virtual import wire


def test_a_request_comes_back_as_it_was() -> None:
    request = wire.Request(("high", "mid"), 42)
    assert wire.decode_request(wire.encode_request(request)) == request


def test_endpoints_come_back_as_they_were() -> None:
    endpoints = [Endpoint("virtual-high-1", "virtual", "127.0.0.1", 4000, "127.0.0.1:4001", "host-cpu")]
    assert wire.decode_answer(wire.encode_answer(endpoints)) == endpoints


@pytest.mark.parametrize("error", [HostError("no", remedy="do", reason=Reason.HOST_DISK_FULL), ConfigError("bad")])
def test_an_error_is_raised_again_with_all_it_carries(error: HostError | ConfigError) -> None:
    with pytest.raises(type(error)) as caught:
        wire.decode_answer(wire.encode_answer(error))
    assert (str(caught.value), caught.value.reason) == (str(error), error.reason)


def test_another_error_becomes_one_of_this_computer() -> None:
    with pytest.raises(HostError, match="was not done after 3 s") as caught:
        wire.decode_answer(wire.encode_answer(DeadlineError("p", "x", 3.0)))
    assert caught.value.reason is Reason.LINK_STALLED


@pytest.mark.parametrize(
    "line", [b"", b"{}\n", b'{"error": "X"}\n', b"\xff\n", b"[]\n", b'{"endpoints": [{"x": 1}]}\n']
)
def test_what_is_not_an_answer_is_our_own_fault(line: bytes) -> None:
    with pytest.raises(HarnessError, match="not an answer"):
        wire.decode_answer(line)


@pytest.mark.parametrize("line", [b"", b"{}\n", b"nonsense\n"])
def test_what_is_not_a_request_is_our_own_fault(line: bytes) -> None:
    with pytest.raises(HarnessError, match="not a request"):
        wire.decode_request(line)
