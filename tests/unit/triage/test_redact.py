"""What tells one phone or its owner from all others is masked; what tells the fault is kept."""

from __future__ import annotations

import pytest

from harness.triage.redact import mask, redacted
from harness.triage.triage import Source, triage


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("account jane.doe+x@example.org logged in", "account <account> logged in"),
        ("bda=0A:1b:2C:3d:4E:5f up", "bda=<mac> up"),
        ("connect to 192.168.1.20:5555 failed", "connect to <ip>:5555 failed"),
        ("route fe80::1ff:fe23:4567:890a via", "route <ip> via"),
        ("addr 2001:db8:85a3:8d3:1319:8a2e:370:7348 x", "addr <ip> x"),
        ("android_id=0123456789abcdef end", "android_id=<android-id> end"),
        ("imei 490154203237518 set", "imei <number> set"),
        ("R58N12ABCDE\toffline", "<serial>\toffline"),
        ("error: device 'R58N12ABCDE' not found", "error: device '<serial>' not found"),
        ("[ro.serialno]: [R58N12ABCDE]", "[ro.serialno]: [<serial>]"),
        ("adb -s R58N12ABCDE shell", "adb -s <serial> shell"),
        ("/home/jane/run/a.log", "/home/<user>/run/a.log"),
    ],
)
def test_it_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "05-05 10:00:00.100  8123  8130 F libc    : Fatal signal 11 (SIGSEGV), fault addr 0x0000007fea48a950",
        "#00 pc 00000000001cf3f8  /data/local/tmp/libMNN.so (MNN::Express::add(int)+24) (BuildId: 0123456789abcdef)",
        "std::__ndk1::vector, Add::add, 3.6.1, 12.5 tok/s",
        "kgsl-3d0 gpu fault at 10:44:25",
    ],
)
def test_what_tells_the_fault_is_kept(text: str) -> None:
    assert mask(text) == text


def test_a_serial_that_is_named_once_is_masked_everywhere() -> None:
    text = (
        "List of devices attached\nR58N12ABCDE\toffline\nadb: error: failed to copy 'R58N12ABCDE.txt' to '/data/x': y\n"
    )
    told = redacted(triage([Source.of_text("log-R58N12ABCDE.txt", text)]))
    assert "R58N12ABCDE" not in "".join(map(str, (finding.as_json() for finding in told)))
    assert told[0].evidence[0].source == "log-<serial>.txt"
