"""Android's binary XML, as an APK's ``AndroidManifest.xml`` has it, to a tree of elements.

The layout is that of ``ResourceTypes.h`` in Android's ``libs/androidfw``: chunks with a type, a header's size and a
whole size; a pool of strings, a map from strings to resource ids, then the beginnings and ends of elements. Only what
a manifest needs is read; every offset is checked before it is followed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

ANDROID = "http://schemas.android.com/apk/res/android"
#: No manifest comes near these; a file that does is no manifest.
MAX_BYTES = 4 * 1024**2
MAX_DEPTH = 64
MAX_ELEMENTS = 100_000

Value = str | int | bool | None

_XML, _POOL, _MAP = 0x0003, 0x0001, 0x0180
_START, _END = 0x0102, 0x0103
_UTF8 = 1 << 8
_NONE = 0xFFFFFFFF
_STRING, _DECIMAL, _HEX, _BOOLEAN = 0x03, 0x10, 0x11, 0x12


@dataclass
class XmlElement:
    """An element: its name, its attributes by name, the elements in it.

    An attribute of Android's own namespace has a name that begins with ``android:``. A reference to a resource, and
    whatever else is no text, number or truth, has the value ``None``.
    """

    name: str
    attributes: dict[str, Value] = field(default_factory=dict)
    children: list[XmlElement] = field(default_factory=list)

    def all(self, name: str) -> list[XmlElement]:
        """Return the elements of that name directly below."""
        return [child for child in self.children if child.name == name]


class XmlTree:
    """Puts a tree together from beginnings and ends.

    Raises:
        ValueError: it is too deep, too big, ends too early or has two roots.
    """

    def __init__(self) -> None:
        self._open: list[XmlElement] = []
        self._root: XmlElement | None = None
        self._count = 0

    def start(self, element: XmlElement) -> None:
        """Begin an element."""
        self._count += 1
        if len(self._open) >= MAX_DEPTH or self._count > MAX_ELEMENTS:
            raise ValueError("it has more elements than a manifest can have")
        if self._open:
            self._open[-1].children.append(element)
        elif self._root is None:
            self._root = element
        else:
            raise ValueError("it has two roots")
        self._open.append(element)

    def end(self) -> None:
        """End the element that was begun last."""
        if not self._open:
            raise ValueError("an element ends that never began")
        self._open.pop()

    def root(self) -> XmlElement:
        """Return the whole tree."""
        if self._root is None or self._open:
            raise ValueError("it ends within an element" if self._open else "it has no element")
        return self._root


def parse_axml(data: bytes) -> XmlElement:
    """Read a binary XML file.

    Raises:
        ValueError: it is none, or it is broken; the message says where.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has {len(data)} bytes, more than a manifest can have")
    kind, header, size = _chunk(data, 0, len(data))
    if kind != _XML:
        raise ValueError("it is no binary XML")
    strings: list[str] | None = None
    ids: tuple[int, ...] = ()
    tree, at = XmlTree(), header
    while at < size:
        kind, header, length = _chunk(data, at, size)
        if kind == _POOL:
            strings = _strings(data[at : at + length])
        elif kind == _MAP:
            ids = struct.unpack_from(f"<{(length - header) // 4}I", data, at + header)
        elif kind == _START:
            tree.start(_element(data[at : at + length], header, strings or [], ids))
        elif kind == _END:
            tree.end()
        at += length
    return tree.root()


def _chunk(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Return type, header's size and whole size of the chunk at ``at``."""
    if at + 8 > end:
        raise ValueError(f"it ends within a chunk's header at byte {at}")
    kind, header, size = struct.unpack_from("<HHI", data, at)
    if not 8 <= header <= size or at + size > end:
        raise ValueError(f"a chunk of {size} bytes at byte {at} does not fit")
    return kind, header, size


def _strings(pool: bytes) -> list[str]:
    count, _styles, flags, start = _unpack("<4I", pool, 8)
    if count > len(pool) // 4:
        raise ValueError(f"a pool of {len(pool)} bytes cannot hold {count} strings")
    header = struct.unpack_from("<H", pool, 2)[0]
    offsets = _unpack(f"<{count}I", pool, header)
    read = _utf8 if flags & _UTF8 else _utf16
    found: list[str] = []
    total = 0
    for offset in offsets:
        found.append(read(pool, start + offset))
        total += len(found[-1])
        if total > MAX_BYTES:  # offsets that all lead to one long string
            raise ValueError("its strings are longer than a manifest can have")
    return found


def _utf8(pool: bytes, at: int) -> str:
    _characters, at = _short_length(pool, at)
    length, at = _short_length(pool, at)
    return _piece(pool, at, length).decode("utf-8", "replace")


def _short_length(pool: bytes, at: int) -> tuple[int, int]:
    first = _piece(pool, at, 1)[0]
    return (first, at + 1) if first < 0x80 else ((first & 0x7F) << 8 | _piece(pool, at + 1, 1)[0], at + 2)


def _utf16(pool: bytes, at: int) -> str:
    (length,) = _unpack("<H", pool, at)
    at += 2
    if length & 0x8000:
        length, at = (length & 0x7FFF) << 16 | _unpack("<H", pool, at)[0], at + 2
    return _piece(pool, at, 2 * length).decode("utf-16-le", "replace")


def _piece(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise ValueError(f"a string at byte {at} of its pool ends behind the pool")
    return data[at : at + length]


def _unpack(form: str, data: bytes, at: int) -> tuple[int, ...]:
    try:
        return struct.unpack_from(form, data, at)
    except struct.error as error:
        raise ValueError(f"a chunk ends too early ({error})") from error


def _element(chunk: bytes, header: int, strings: list[str], ids: tuple[int, ...]) -> XmlElement:
    _space, name, first, size, count, _, _, _ = _unpack("<2I6H", chunk, header)
    if size < 20 and count:
        raise ValueError(f"attributes of {size} bytes are too short")
    element = XmlElement(_string(strings, name) or "")
    for number in range(count):
        space, key, raw, _, kind, value = _unpack("<3IHxBI", chunk, header + first + number * size)
        name_of = f"android:{_NAMES[ids[key]]}" if key < len(ids) and ids[key] in _NAMES else _name(strings, space, key)
        element.attributes[name_of] = _value(strings, raw, kind, value)
    return element


def _name(strings: list[str], space: int, key: int) -> str:
    prefix = "android:" if _string(strings, space) == ANDROID else ""
    return prefix + (_string(strings, key) or "")


def _value(strings: list[str], raw: int, kind: int, value: int) -> Value:
    if kind == _STRING:
        return _string(strings, value)
    if kind in (_DECIMAL, _HEX):
        return value
    if kind == _BOOLEAN:
        return value != 0
    return _string(strings, raw)


def _string(strings: list[str], index: int) -> str | None:
    if index == _NONE:
        return None
    if index >= len(strings):
        raise ValueError(f"there is no string {index}")
    return strings[index]


#: Android's own ids of the attributes that count here; tools that shrink an app may take their names away.
_NAMES = {
    0x01010003: "name",
    0x0101020C: "minSdkVersion",
    0x01010270: "targetSdkVersion",
    0x0101028E: "required",
    0x010104EA: "extractNativeLibs",
}
