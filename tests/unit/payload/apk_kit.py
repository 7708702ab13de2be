"""Writers of what an APK and an AAB hold: their manifests, and zips whose entries begin where one wants."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import NamedTuple

ANDROID = "http://schemas.android.com/apk/res/android"
_IDS = {
    "name": 0x01010003,
    "minSdkVersion": 0x0101020C,
    "targetSdkVersion": 0x01010270,
    "required": 0x0101028E,
    "extractNativeLibs": 0x010104EA,
}
_NONE = 0xFFFFFFFF


class Node(NamedTuple):
    """An element to be written; an attribute whose name begins with ``android:`` is of Android's namespace."""

    name: str
    attributes: dict[str, str | int | bool | None]
    children: tuple[Node, ...] = ()


def manifest(
    *,
    package: str = "com.example.farm",
    min_sdk: int | str | None = 26,
    target_sdk: int | str | None = 34,
    extract: bool | None = None,
    libraries: dict[str, bool | None] | None = None,
) -> Node:
    sdk = {"android:minSdkVersion": min_sdk, "android:targetSdkVersion": target_sdk}
    uses = tuple(
        Node("uses-native-library", {"android:name": name} | ({} if needed is None else {"android:required": needed}))
        for name, needed in (libraries or {}).items()
    )
    application = Node("application", {} if extract is None else {"android:extractNativeLibs": extract}, uses)
    return Node(
        "manifest",
        {"package": package},
        (Node("uses-sdk", {key: value for key, value in sdk.items() if value is not None}), application),
    )


def axml(root: Node, *, utf8: bool = False, names: bool = True) -> bytes:
    """Write binary XML; without ``names`` Android's attributes are known by their ids alone, as some tools do."""
    table = list(_IDS)
    shown = [*([name if names else "" for name in table]), ANDROID, "android"]
    index = {name: number for number, name in enumerate([*table, ANDROID, "android"])}

    def string(text: str) -> int:
        if text not in index:
            index[text] = len(shown)
            shown.append(text)
        return index[text]

    body = b""

    def write(node: Node) -> None:
        nonlocal body
        attributes = b""
        for key, value in node.attributes.items():
            plain = key.removeprefix("android:")
            space = string(ANDROID) if plain != key else _NONE
            raw, kind, said = _NONE, 0x10, 0
            if isinstance(value, bool):
                kind, said = 0x12, _NONE if value else 0
            elif isinstance(value, int):
                said = value & 0xFFFFFFFF
            elif value is None:
                kind, said = 0x01, 0x7F010001
            else:
                raw = said = string(value)
                kind = 0x03
            attributes += struct.pack("<3IHBBI", space, string(plain), raw, 8, 0, kind, said)
        name = string(node.name)
        head = struct.pack("<2I2I6H", 1, _NONE, _NONE, name, 20, 20, len(node.attributes), 0, 0, 0)
        body += _chunk(0x0102, 16, head + attributes)
        for child in node.children:
            write(child)
        body += _chunk(0x0103, 16, struct.pack("<4I", 1, _NONE, _NONE, name))

    write(root)
    space = struct.pack("<4I", 1, _NONE, index["android"], index[ANDROID])
    body = _chunk(0x0100, 16, space) + body + _chunk(0x0101, 16, space)
    ids = _chunk(0x0180, 8, struct.pack(f"<{len(table)}I", *_IDS.values()))
    return _chunk(0x0003, 8, _pool(shown, utf8) + ids + body)


def _chunk(kind: int, header: int, rest: bytes) -> bytes:
    return struct.pack("<HHI", kind, header, 8 + len(rest)) + rest


def _pool(strings: list[str], utf8: bool) -> bytes:
    data, offsets = b"", []
    for text in strings:
        offsets.append(len(data))
        if utf8:
            data += _length8(len(text)) + _length8(len(text.encode())) + text.encode() + b"\0"
        else:
            units = text.encode("utf-16-le")
            count = len(units) // 2
            long = struct.pack("<H", 0x8000 | count >> 16) if count > 0x7FFF else b""
            data += long + struct.pack("<H", count & 0xFFFF) + units + b"\0\0"
    data += bytes(-len(data) % 4)
    start = 28 + 4 * len(offsets)
    head = struct.pack("<5I", len(strings), 0, 0x100 if utf8 else 0, start, 0)
    return _chunk(0x0001, 28, head + struct.pack(f"<{len(offsets)}I", *offsets) + data)


def _length8(length: int) -> bytes:
    return bytes([length]) if length < 0x80 else bytes([0x80 | length >> 8, length & 0xFF])


def proto_xml(root: Node) -> bytes:
    """Write an ``XmlNode`` of aapt's ``Resources.proto``."""
    element = _bytes(1, _bytes(1, b"android") + _bytes(2, ANDROID.encode())) + _bytes(3, root.name.encode())
    for key, value in root.attributes.items():
        plain = key.removeprefix("android:")
        attribute = _bytes(1, ANDROID.encode()) if plain != key else b""
        attribute += _bytes(2, plain.encode())
        if isinstance(value, bool):
            attribute += _bytes(3, str(value).lower().encode()) + _bytes(6, _bytes(7, _number(8, int(value))))
        elif isinstance(value, int):
            attribute += _bytes(3, str(value).encode()) + _bytes(6, _bytes(7, _number(6, value)))
        elif value is not None:
            attribute += _bytes(3, value.encode())
        element += _bytes(4, attribute + _number(5, _IDS.get(plain, 0)))
    for child in root.children:
        element += _bytes(5, proto_xml(child))
    return _bytes(1, element) + _bytes(3, _number(1, 2))


def bundle_config(alignment: int | None, *, enabled: bool = True) -> bytes:
    """Write a ``BundleConfig``: the page alignment (1: 4 KB, 2: 16 KB) of uncompressed libraries."""
    uncompress = _number(1, int(enabled)) + (_number(2, alignment) if alignment is not None else b"")
    return _bytes(1, _bytes(2, b"1.17.2")) + _bytes(2, _bytes(1, b"") + _bytes(2, uncompress))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([0x80 | value & 0x7F])
        value >>= 7
    return out + bytes([value])


def write_zip(file: Path, entries: dict[str, bytes], *, align: int = 4, stored: bool = True) -> Path:
    """Write a zip; libraries are stored so that their data begin at a multiple of ``align``, if they are stored."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name)
            library = name.endswith(".so")
            info.compress_type = zipfile.ZIP_STORED if stored or not library else zipfile.ZIP_DEFLATED
            if library and stored:
                begins = archive.fp.tell() + 30 + len(name.encode())  # type: ignore[union-attr]
                # An extra field has a head of four bytes.
                info.extra = b"\x35\xd9" + struct.pack("<H", pad := (-begins - 4) % align) + bytes(pad)
            archive.writestr(info, content)
    return file
