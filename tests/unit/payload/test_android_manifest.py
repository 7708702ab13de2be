"""Manifests of apps, in the two forms that they are packed in."""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Callable
from types import ModuleType

import pytest

from harness.payload.android_manifest import AndroidManifest, read_manifest
from harness.payload.axml import XmlElement, parse_axml
from harness.payload.proto_xml import parse_proto_xml
from harness.payload.protobuf import fields

Parse = Callable[[bytes], XmlElement]
WHOLE = AndroidManifest(
    package="org.farm.tést",
    min_sdk=28,
    target_sdk=35,
    extract_native_libs=False,
    native_libraries=(("libOpenCL.so", False), ("libcdsprpc.so", True), ("libvndk.so", True)),
)


def whole(kit: ModuleType) -> object:
    needed = {"libOpenCL.so": False, "libvndk.so": None, "libcdsprpc.so": True}
    return kit.manifest(package="org.farm.tést", min_sdk=28, target_sdk=35, extract=False, libraries=needed)


def forms(kit: ModuleType, node: object) -> list[tuple[Parse, bytes]]:
    return [
        (parse_axml, kit.axml(node)),
        (parse_axml, kit.axml(node, utf8=True)),
        (parse_axml, kit.axml(node, names=False)),
        (parse_proto_xml, kit.proto_xml(node)),
    ]


def test_every_form_of_a_manifest_says_the_same(apk_kit: ModuleType) -> None:
    for parse, data in forms(apk_kit, whole(apk_kit)):
        assert read_manifest(parse(data)) == WHOLE


def test_what_a_manifest_does_not_say_is_unknown(apk_kit: ModuleType) -> None:
    bare = apk_kit.Node("manifest", {})
    for parse, data in forms(apk_kit, bare):
        assert read_manifest(parse(data)) == AndroidManifest()


def test_a_missing_target_is_the_minimum_and_a_preview_is_no_number(apk_kit: ModuleType) -> None:
    for min_sdk, target_sdk, says in (
        (24, None, (24, 24)),
        (None, 34, (None, 34)),
        ("Baklava", "36", (None, 36)),
    ):
        node = apk_kit.manifest(min_sdk=min_sdk, target_sdk=target_sdk)
        for parse, data in forms(apk_kit, node):
            found = read_manifest(parse(data))
            assert (found.min_sdk, found.target_sdk) == says


def test_a_reference_to_a_resource_is_unknown(apk_kit: ModuleType) -> None:
    node = apk_kit.Node("manifest", {}, (apk_kit.Node("application", {"android:extractNativeLibs": None}),))
    assert read_manifest(parse_axml(apk_kit.axml(node))).extract_native_libs is None


def test_a_long_string_is_read_whole(apk_kit: ModuleType) -> None:
    for name in ("x" * 200, "é" * 12_000):
        for parse, data in forms(apk_kit, apk_kit.manifest(package=name)):
            assert read_manifest(parse(data)).package == name
    name = "é" * 40_000
    assert read_manifest(parse_axml(apk_kit.axml(apk_kit.manifest(package=name)))).package == name


def test_xml_that_is_no_manifest_is_refused(apk_kit: ModuleType) -> None:
    with pytest.raises(ValueError, match="its root is 'resources' instead of 'manifest'"):
        read_manifest(parse_axml(apk_kit.axml(apk_kit.Node("resources", {}))))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it ends within a chunk's header"),
        (b'<?xml version="1.0"?><manifest/>', "a chunk of .* does not fit"),
        (struct.pack("<HHI", 3, 8, 8), "it has no element"),
        (struct.pack("<HHI", 2, 8, 8), "it is no binary XML"),
        (struct.pack("<HHIHHI", 3, 8, 16, 0x103, 8, 8), "an element ends that never began"),
        (struct.pack("<HHIHHI", 3, 8, 16, 0x180, 8, 4), "a chunk of 4 bytes at byte 8 does not fit"),
        (struct.pack("<HHIHHI5I", 3, 8, 36, 1, 28, 28, 1 << 30, 0, 0, 28, 0), "cannot hold 1073741824 strings"),
        (bytes(5 << 20), "more than a manifest can have"),
    ],
)
def test_broken_binary_xml_is_refused_with_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_axml(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it has no element"),
        (b"\x0a", "it ends within a number"),
        (b"\x0a\x05abc", "field 1 of kind 2 does not fit"),
        (b"\x0b", "field 1 of kind 3 does not fit"),
        (b"\x08" + b"\xff" * 10, "more than ten bytes"),
        (b"\x02\x00", "a field has the number 0"),
        (b"\x08\x01", "a number stands where a message should"),
        (b"\x0a\x00\x0a\x00", "it has two roots"),
    ],
)
def test_broken_protobuf_is_refused_with_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_proto_xml(data)


def test_fixed_fields_are_stepped_over() -> None:
    assert list(fields(b"\x0d1234\x1112345678\x18\x07")) == [(3, 7)]


def test_elements_in_elements_without_end_are_refused(apk_kit: ModuleType) -> None:
    node = apk_kit.Node("manifest", {})
    for _ in range(200):
        node = apk_kit.Node("manifest", {}, (node,))
    for parse, data in forms(apk_kit, node):
        with pytest.raises(ValueError, match="more elements than a manifest can have"):
            parse(data)


def test_offsets_that_all_lead_to_one_long_string_are_refused(apk_kit: ModuleType) -> None:
    count, text = 2000, b"\xff\xff" + b"\xff\xff" + b"x" * 32767 + b"\0"
    pool = struct.pack("<HHI5I", 1, 28, 28 + 4 * count + len(text), count, 0, 0x100, 28 + 4 * count, 0)
    pool += bytes(4 * count) + text
    with pytest.raises(ValueError, match="longer than a manifest can have"):
        parse_axml(struct.pack("<HHI", 3, 8, 8 + len(pool)) + pool)


def test_no_bytes_make_a_parser_do_anything_but_read_or_refuse(apk_kit: ModuleType) -> None:
    chance = random.Random(3)  # noqa: S311
    for parse, data in forms(apk_kit, whole(apk_kit)):
        read = 0
        for _ in range(250):
            changed = bytearray(data[: chance.randrange(1, len(data))] if chance.random() < 0.3 else data)
            for _ in range(chance.randint(0, 8)):
                changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            with contextlib.suppress(ValueError):
                read_manifest(parse(bytes(changed)))
                read += 1
        assert read > 0
