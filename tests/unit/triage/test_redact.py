"""What tells one phone or its owner from all others is masked; what tells the fault is kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.triage.redact import Redactor, mask, redacted, serials_of
from harness.triage.rule import shipped_rules
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
        ("[ro.ril.oem.psno]: [37289ABCDE]", "[ro.ril.oem.psno]: [<serial-1>]"),
        ("[persist.bluetooth.name]: [Ida's Pixel]", "[persist.bluetooth.name]: [<name-1>]"),
        (
            "androidboot.btmacaddr=0a1b2c3d4e5f ro.serialno=R58N12ABCDE",
            "androidboot.btmacaddr=<mac-1> ro.serialno=<serial-1>",
        ),
        ("[  12.3] usb 1-2: SerialNumber: R58N12ABCDE", "[  12.3] usb 1-2: SerialNumber: <serial-1>"),
        ("  iSerial                 3 R58N12ABCDE", "  iSerial                 3 <serial-1>"),
        ("Serial\t\t: 0000000012ab34cd", "Serial\t\t: <serial-1>"),
        ("mSerial=R58N12ABCDE, Serial Number: R58N12ABCDF", "mSerial=<serial-1>, Serial Number: <serial-2>"),
        ("export ANDROID_SERIAL=R58N12ABCDE", "export ANDROID_SERIAL=<serial-1>"),
        ("$ adb -H 10.1.1.2 -P 5038 -s R58N12ABCDE push x", "$ adb -H <ip-1> -P 5038 -s <serial-1> push x"),
        ("$ adb -H lab-nine -P 5038 devices", "$ adb -H <host-1> -P 5038 devices"),
        ("pytest --devices R58N12ABCDE,virtual:mid2", "pytest --devices <serial-1>,virtual:mid2"),
        ("R58N12ABCDE\trescue", "<serial-1>\trescue"),
        (
            "transport.cpp:1109] R58N12ABCDE: connection terminated",
            "transport.cpp:1109] <serial-1>: connection terminated",
        ),
        ("adb server: device R58N12ABCDE is offline", "adb server: device <serial-1> is offline"),
        (
            "adb-R58N12ABCDE-x7Yz1a\t_adb-tls-connect._tcp\t10.0.0.8:37043",
            "<serial-1>\t_adb-tls-connect._tcp\t<ip-1>:37043",
        ),
        ("token for jane.doe%40example.org", "token for <account-1>"),
        ("accountName=ida.m, type=x", "accountName=<account-1>, type=x"),
        ("UserInfo{0:Ida Moser:c13} running", "UserInfo{0:<name-1>:c13} running"),
        ("ida@idas-laptop:~/MNN$ adb shell", "<account-1>:~/MNN$ adb shell"),
        ("[ida@idas-laptop MNN]$ ./llm_demo", "[<account-1> MNN]$ ./llm_demo"),
        ("phoneNumber=4317012345678", "phoneNumber=<telephone-1>"),
        ("Number: 017012345678", "Number: <telephone-1>"),
        ("IMEI: 35-209900-176148-1", "IMEI: <number-1>"),
        ("EID: 89049032007008882600012345678901", "EID: <number-1>"),
        (
            "_id:14 name:android_id pkg:android value:0123456789abcdef default:0123456789abcdef defaultSystemSet:true",
            "_id:14 name:android_id pkg:android value:<android-id-1> default:<android-id-1> defaultSystemSet:true",
        ),
        (
            "_id:66 name:device_name pkg:android value:Ida's Pixel default:x y",
            "_id:66 name:device_name pkg:android value:<name-1> default:<name-2>",
        ),
        ("Android ID: 0123456789abcdef", "Android ID: <android-id-1>"),
        ("gsf_id=0123456789abcdef", "gsf_id=<id-1>"),
        ("advertising id: 38400000-8cf0-11bd-b23e-10b96e40000d", "advertising id: <id-1>"),
        ("macAddress=0a1b2c3d4e5f and 0A:1B:2C:3D:4E:5F", "macAddress=<mac-1> and <mac-1>"),
        ("HWaddr 0a1b.2c3d.4e5f, dev_0A_1B_2C_3D_4E_5F", "HWaddr <mac-1>, dev_<mac-1>"),
        ("p2p addr:0a:1b:2c:3d:4e:5f", "p2p addr:<mac-1>"),
        ("fe80::a1b:2cff:fe3d:4e5f%wlan0/64", "<ip-1>%wlan0/64"),
        ("::ffff:c0a8:b221 and ::ffff:192.168.178.33", "<ip-1> and ::ffff:<ip-2>"),
        ("2a02:8108:1:0:0:0:0:5 is 2a02:8108:1::5", "<ip-1> is <ip-1>"),
        ("associate with SSID 'My Home'", "associate with SSID '<ssid-1>'"),
        ('ConfiguredNetwork: "My Home"WPA_PSK', 'ConfiguredNetwork: "<ssid-1>"WPA_PSK'),
        ("mLatitude=52.52,mLongitude=13.4", "mLatitude=<place-1>,mLongitude=<place-2>"),
        ("geo:52.520008,13.404954", "geo:<place-1>"),
        ("bt_btif: device name: Ida's AirPods", "bt_btif: device name: <name-1>"),
        ("  0A:1B:2C:3D:4E:5F [ DUAL ] Ida's Buds", "  <mac-1> [ DUAL ] <name-1>"),
        ("paired with Ida's Galaxy S23", "paired with <name-1>"),
        ("paired with Pixel 8 von Ida", "paired with <name-1>"),
        ("found Idas-Pixel.local. and nas.fritz.box:445", "found <host-1>.local. and <host-2>.fritz.box:445"),
        ("deviceId=0123456789abcdef", "deviceId=<android-id-1>"),
        ("HOSTNAME=idas-laptop USER=ida", "HOSTNAME=<host-1> USER=<user-1>"),
        (r"C:\Users\Ida Moser\AppData", r"C:\Users\<user-1>\AppData"),
        (
            "-I/home/jane/x file:///home/jane/y /var/home/jane/z",
            "-I/home/<user-1>/x file:///home/<user-1>/y /var/home/<user-1>/z",
        ),
        ("/run/media/ida/stick and /media/ida/x", "/run/media/<user-1>/stick and /media/<user-1>/x"),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer <secret-1>"),
        ("Set-Cookie: SID=abcd1234; Path=/", "Set-Cookie: <secret-1>"),
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", "HF_TOKEN=<secret-1>"),
        ("with eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc-D", "with <secret-1>"),
        (
            "https://ida:geheim@example.org/x?token=abcdef123456&y=1",
            "https://<secret-1>@example.org/x?token=<secret-2>&y=1",
        ),
        ("password=hunter22, psk=geheim12", "password=<secret-1>, psk=<secret-2>"),
        ('open "/sdcard/DCIM/Ida and Max.jpg" failed', 'open "/sdcard/<file-1>" failed'),
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
        "Serial          : 0000000000000000",
        "listening on 127.0.0.1:5037, [::1]:5037 and 0.0.0.0:5555, mask 255.255.255.0",
        "ether 00:00:00:00:00:00 brd ff:ff:ff:ff:ff:ff seen as 02:00:00:00:00:00",
        "VkPhysicalDeviceProperties deviceName: Mali-G715, apiVersion 1.3.128.0",
        "CL_DEVICE_NAME: QUALCOMM Adreno(TM), device name: Adreno (TM) 740",
        "deviceName = SwiftShader Device (LLVM 10.0.0)",
        "usb 1-2: New USB device strings: Mfr=1, Product=2, SerialNumber=3",
        "eos_token: <|im_end|>, bos_token=1, token: 42, max_new_tokens = 512, key=cache_key_0123456789",
        "malloc@plt, memcpy@@GLIBC_2.14, java.lang.Object@1a2b3c4d, load@libfoo.so",
        "offset +1234567890, vmsize 12345678901234 bytes, number of threads: 4",
        "--devices all, --devices virtual:high-opencl2,usb:1-2.3",
        "Android's low memory killer, the phone's log, MNN's Python package",
        "name: libMNN.so  addr: 0x7f00, Password is not set, secret: none, hostname: localhost",
        "sha256 1234567890123456789012345678901234567890123456789012345678901234",
        "/data/app/~~AbCdEfGhIjKlMn==/com.example-0123456789abcdef==/base.apk!libMNN.so",
        'type=1400 audit(1700000000.123:456): avc: denied { execute } for path="/data/local/tmp/x" ino=12345',
        "uid=2000(shell) gid=2000(shell), user 0 running, latency=12.345 lat: 3.5 ms",
        "/data/local/tmp/x.local/y, com.android.local.Foo, deviceId=0x1234, com.lan.App",
        "versionName=35.1.2.3 versionCode=12",
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


def test_a_name_that_no_word_is_is_masked_where_it_stands_alone() -> None:
    redactor = Redactor()
    redactor.learn(['hci: device_name=Ida\'s Pixel\nSSID: "moser-5g"\n', 'device_name=Toy 3\nSSID: "internet"\n'])
    text = "hotspot IDA'S PIXEL, moser-5g; a Toy 3 with internet"
    assert redactor.names(text) == "hotspot <name-1>, <ssid-1>; a Toy 3 with internet"


def test_a_name_ends_where_what_stands_behind_it_begins() -> None:
    text = "[persist.sys.device_name]: [Ida's Pixel 8]\nvalue:Ida's Pixel 8 default:x\nBluetooth: Name: Ida's Pixel 8\n"
    redactor = Redactor()
    redactor.learn([text])
    assert redactor.text(text) == (
        "[persist.sys.device_name]: [<name-1>]\nvalue:<name-1> default:x\nBluetooth: Name: <name-1>\n"
    )


def test_json_in_a_string_of_json_stays_json() -> None:
    inside = json.dumps({"account": "ida.m", "imei": 490154203237518, "x": 1})
    masked = json.loads(Redactor().json(json.dumps({"detail": f"it said\n{inside}"})))
    assert json.loads(masked["detail"].split("\n")[1]) == {"account": "<account-1>", "imei": "<number-1>", "x": 1}


def test_a_private_key_is_masked_line_by_line() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\nQ+/x==\n-----END RSA PRIVATE KEY-----\n"
    assert mask(f"a\n{key}b") == (
        "a\n-----BEGIN RSA PRIVATE KEY-----\n<secret-1>\n<secret-2>\n-----END RSA PRIVATE KEY-----\nb"
    )


def test_masked_logs_tell_the_same_first_finding() -> None:
    changed = 0
    for rule in shipped_rules():
        for text in rule.positive:
            redactor = Redactor()
            redactor.learn([text])
            masked = redactor.text(text)
            if masked != text:
                changed += 1
                plain, found = (triage([Source.of_text("x", one)]) for one in (text, masked))
                assert [one.code for one in found] == [one.code for one in plain], masked
    assert changed > 10


def test_lines_are_found_across_blocks_whatever_stands_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.triage.suspects.BLOCK", 7)
    assert mask("é\n\n10.0.0.1\n\udcff nothing\nto 10.0.0.2:5\n\n") == ("é\n\n<ip-1>\n\udcff nothing\nto <ip-2>:5\n\n")


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
