"""What tells one phone or its owner from all others is masked; what tells the fault is kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.triage.redact import Redactor, mask, redacted, serials_of
from harness.triage.triage import Source, triage


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("account jane.doe+x@example.org logged in", "account <account-1> logged in"),
        ("Account {name=Jane Doe, type=com.example.chat}", "Account {name=<account-1>, type=com.example.chat}"),
        ("bda=0A:1b:2C:3d:4E:5f up", "bda=<mac-1> up"),
        ("bssid 0A-1b-2C-3d-4E-5f up", "bssid <mac-1> up"),
        ("eui 00:11:22:33:44:55:66:77 x", "eui <mac-1> x"),
        ("connect to 192.168.1.20:5555 failed", "connect to <ip-1>:5555 failed"),
        ("inet 10.0.0.7/24 brd 10.0.0.255", "inet <ip-1>/24 brd <ip-2>"),
        ("peer 8.8.4.4 and 142.250.9.9.", "peer <ip-1> and <ip-2>."),
        ("route fe80::1ff:fe23:4567:890a via", "route <ip-1> via"),
        ("addr 2001:db8:85a3:8d3:1319:8a2e:370:7348 x", "addr <ip-1> x"),
        ("android_id=0123456789abcdef end", "android_id=<android-id-1> end"),
        ("imei 490154203237518 set", "imei <number-1> set"),
        ("IMEI:35-209900 imei1=352099001761481.", "IMEI:35-209900 imei1=<number-1>."),
        ("iccid 89490200001234567890 here", "iccid <number-1> here"),
        ("sim 89490200001234567890 here", "sim <number-1> here"),
        ("dialing +49 170 1234567 now", "dialing <telephone-1> now"),
        ("uri tel:0170 1234567", "uri tel:<telephone-1>"),
        ("R58N12ABCDE\toffline", "<serial-1>\toffline"),
        ("error: device 'R58N12ABCDE' not found", "error: device '<serial-1>' not found"),
        ("[ro.serialno]: [R58N12ABCDE]", "[ro.serialno]: [<serial-1>]"),
        ("[persist.radio.imei]: [490154]", "[persist.radio.imei]: [<number-1>]"),
        ("[ro.boot.wifimacaddr]: [0a1b2c]", "[ro.boot.wifimacaddr]: [<mac-1>]"),
        ("adb -s R58N12ABCDE shell", "adb -s <serial-1> shell"),
        ("192.168.1.7:5555   device product:x", "<serial-1>   device product:x"),
        ("on adb-R58N12ABCDE-x7Yz1a._adb-tls-connect._tcp now", "on <serial-1> now"),
        ("emulator-5554, emulator-5556, emulator-5554", "<serial-1>, <serial-2>, <serial-1>"),
        ('mWifiInfo SSID: "My Home", BSSID: 02:00:00:00:00:01', 'mWifiInfo SSID: "<ssid-1>", BSSID: <mac-1>'),
        ("SSID: My Home, Security type: 2", "SSID: <ssid-1>, Security type: 2"),
        ("trying SSID='a b' freq=2412", "trying SSID='<ssid-1>' freq=2412"),
        ("BluetoothAdapterProperties: Name is: Jane's Phone", "BluetoothAdapterProperties: Name is: <name-1>"),
        ("device_name=Jane's Phone", "device_name=<name-1>"),
        ("/home/jane/run/a.log and /Users/joe/x", "/home/<user-1>/run/a.log and /Users/<user-2>/x"),
        (r"C:\Users\jane\a.log", r"C:\Users\<user-1>\a.log"),
        ("open /storage/emulated/0/DCIM/Jane.jpg failed", "open /storage/emulated/0/<file-1> failed"),
        ("Location[gps 52.520008,13.404954 hAcc=3]", "Location[gps <place-1> hAcc=3]"),
        ("latitude: 52.52, longitude: 13.4", "latitude: <place-1>, longitude: <place-2>"),
        ("fix lat=52.5200 lon=13.4050", "fix lat=<place-1>"),
    ],
)
def test_it_is_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "05-05 10:00:00.100  8123  8130 F libc    : Fatal signal 11 (SIGSEGV), fault addr 0x0000007fea48a950",
        "#00 pc 00000000001cf3f8  /data/local/tmp/libMNN.so (MNN::Express::add(int)+24) (BuildId: 0123456789abcdef)",
        "#01 pc 0000000000123456  /data/local/tmp/mnn-farm/bundles/0f/farm_runner (main+100)",
        "    x0  0000000000123456  x1  b400007512345678  x2  00112233445566aa",
        "std::__ndk1::vector, Add::add2, fee::bad1, 3.6.1, 12.5 tok/s",
        "kgsl-3d0 gpu fault at 10:44:25, 12:34:56:78",
        "MNN 3.6.1.0, driver version 30.0.101.140, libfoo-3.6.1.0.so, v512.1.2.3",
        "MNN engine 3.6.1.0",
        "sha256 90123456789012345678abcdef012345678901234567890123456789abcdef01",
        "fingerprint AB:CD:EF:01:23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:CD:EF:01",
        "android.hardware.graphics.composer@2.1-service and audio@7.0-impl.so",
        "Build fingerprint: 'acme/x1/x1:14/AP1A.240405.002/11480754:user/release-keys'",
        "mono_ns=1719839201123456789 lat=12.345 ms",
        "/sdcard/Android/data/com.example/files/a.txt",
        "logcat -s lowmemorykiller, serial port, the usb device",
        "'org/device_name/device_name:12/X', /data/data/com.example/files/home/build/x.so",
        '"begun_ns\\": 46217292118903, x_bytes=12345678901234',
        "layer serial=1234 of pid 1234, serial: 0x12345678, serial number, device 'null', serial: UNKNOWN",
        "13 digits 1234567890123 and 1.23456789012345678",
        "SSID: <unknown ssid>, id 550e8400-e29b-41d4-a716-446655440000",
    ],
)
def test_what_tells_the_fault_is_kept(text: str) -> None:
    assert mask(text) == text
    assert mask(mask(text)) == text


def test_a_serial_that_is_named_once_is_masked_everywhere() -> None:
    text = (
        "List of devices attached\nR58N12ABCDE\toffline\nadb: error: failed to copy 'R58N12ABCDE.txt' to '/data/x': y\n"
    )
    told = redacted(triage([Source.of_text("log-R58N12ABCDE.txt", text)]))
    assert "R58N12ABCDE" not in "".join(map(str, (finding.as_json() for finding in told)))
    assert told[0].evidence[0].source == "log-<serial-1>.txt"


def test_known_serials_are_masked_the_longer_one_first_and_short_ones_as_words_only() -> None:
    redactor = Redactor(["R5CT30AB", "R5CT30ABCDE", "c0de", "ab"])
    assert redactor.names("phone R5CT30ABCDE (xR5CT30ABx) c0de 0xc0def00d ab 123456789012345") == (
        "phone <serial-1> (x<serial-2>x) <serial-3> 0xc0def00d ab 123456789012345"
    )
    assert redactor.told() == ["serial: 3"]


def test_one_secret_has_one_placeholder_in_all_texts_and_two_have_two() -> None:
    redactor = Redactor(["R58N12ABCDE"])
    assert redactor.text("R58N12ABCDE 10.0.0.1:5 10.0.0.2:5") == "<serial-1> <ip-1>:5 <ip-2>:5"
    assert redactor.text("10.0.0.2:9 [ro.boot.serialno]: R58N12ABCDE") == "<ip-2>:9 [ro.boot.serialno]: <serial-1>"
    assert redactor.told() == ["ip: 3", "serial: 2"]


def test_capitals_and_dashes_make_no_other_secret() -> None:
    redactor = Redactor(["R58N12ABCDE"])
    assert redactor.text("r58n12abcde R58N12ABCDE 0A:1B:2C:3D:4E:5F 0a-1b-2c-3d-4e-5f") == (
        "<serial-1> <serial-1> <mac-1> <mac-1>"
    )


def test_json_stays_json_with_its_numbers_and_its_layout() -> None:
    text = (
        '{"serial": "ABC",\n "imei": 490154203237518, "at_ns": 123456789012345,'
        ' "engine_version": "35.6.1.0", "said": "to 10.1.2.3\\nand \\u0031\\u0030.1.2.4", "x": 1.50e3, "serialized": 3}'
    )
    assert Redactor().json(text) == (
        '{"serial": "<serial-1>",\n "imei": "<number-1>", "at_ns": 123456789012345,'
        ' "engine_version": "35.6.1.0", "said": "to <ip-1>\\nand <ip-2>", "x": 1.50e3, "serialized": 3}'
    )


def test_lines_of_json_in_a_log_stay_json() -> None:
    masked = Redactor().text('plain 10.0.0.1\n{"imei": 490154203237518}\n{"torn": "10.0.0.1')
    assert masked == 'plain <ip-1>\n{"imei": "<number-1>"}\n{"torn": "<ip-1>'


def test_bytes_that_are_no_text_stay_and_what_is_beside_them_is_masked() -> None:
    assert Redactor().member("a.log", b"\xff\xfe to 10.0.0.1 \x00\n") == b"\xff\xfe to <ip-1> \x00\n"


def test_the_serials_of_a_phone_are_those_known_and_those_in_its_properties() -> None:
    properties = {"ro.serialno": "R5CT30ABCDE", "ro.product.model": "F24"}
    assert serials_of(properties, "10.0.0.7:5555") == ["10.0.0.7:5555", "R5CT30ABCDE"]


_HOSTILE = st.text(st.sampled_from("\":{}[]\\,.@<>-+/ 0123456789abcdefimeiserialSSID='\n\ud800é")) | st.text()
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _HOSTILE,
    lambda inside: (
        st.lists(inside, max_size=4) | st.dictionaries(_HOSTILE | st.sampled_from(["imei", "serial"]), inside)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(_JSON, _HOSTILE)
def test_any_json_stays_json_of_the_same_shape(document: object, serial: str) -> None:
    for text in (json.dumps(document), json.dumps(document, indent=1, ensure_ascii=False)):
        masked = Redactor([serial]).json(text)
        assert _shape(json.loads(masked)) == _shape(document)


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return [_shape(one) for one in value.values()]
    return [_shape(one) for one in value] if isinstance(value, list) else None


@settings(max_examples=150, deadline=None)
@given(st.binary() | _HOSTILE.map(lambda text: text.encode("utf-8", "replace")), st.sampled_from([".json", ".log"]))
def test_no_bytes_break_it_and_lines_stay_lines(data: bytes, ending: str) -> None:
    masked = Redactor(["emulator-5554"]).member(f"x{ending}", data)
    assert masked.count(b"\n") == data.count(b"\n")
