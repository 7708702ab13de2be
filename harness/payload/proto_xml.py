"""The XML of an Android App Bundle: messages of aapt's ``Resources.proto`` in protobuf's wire format, to a tree.

Only the fields that a manifest needs are read, others are stepped over. A message is never longer than the one it is
in, so that reading ends however the bytes look.
"""

from __future__ import annotations

from harness.payload.axml import ANDROID, MAX_BYTES, Value, XmlElement, XmlTree
from harness.payload.protobuf import fields

# Numbers of fields, by message.
_NODE_ELEMENT = 1
_ELEMENT_NAME, _ELEMENT_ATTRIBUTE, _ELEMENT_CHILD = 3, 4, 5
_ATTRIBUTE_SPACE, _ATTRIBUTE_NAME, _ATTRIBUTE_VALUE, _ATTRIBUTE_ITEM = 1, 2, 3, 6
_ITEM_PRIMITIVE = 7
_INTEGER, _HEX, _BOOLEAN = 6, 7, 8


def parse_proto_xml(data: bytes) -> XmlElement:
    """Read an ``XmlNode``.

    Raises:
        ValueError: it is none, or it is broken; the message says how.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has {len(data)} bytes, more than a manifest can have")
    tree = XmlTree()
    _node(data, tree)
    return tree.root()


def _node(node: bytes, tree: XmlTree) -> None:
    for number, value in fields(node):
        if number == _NODE_ELEMENT:
            _element(_bytes(value), tree)


def _element(message: bytes, tree: XmlTree) -> None:
    element, children = XmlElement(""), []
    for number, value in fields(message):
        if number == _ELEMENT_NAME:
            element.name = _text(value)
        elif number == _ELEMENT_ATTRIBUTE:
            name, said = _attribute(_bytes(value))
            element.attributes[name] = said
        elif number == _ELEMENT_CHILD:
            children.append(_bytes(value))
    tree.start(element)
    for child in children:
        _node(child, tree)
    tree.end()


def _attribute(message: bytes) -> tuple[str, Value]:
    found: dict[int, int | bytes] = dict(fields(message))
    prefix = "android:" if _text(found.get(_ATTRIBUTE_SPACE, b"")) == ANDROID else ""
    value: Value = _text(found.get(_ATTRIBUTE_VALUE, b""))
    if _ATTRIBUTE_ITEM in found:
        compiled = _primitive(_bytes(found[_ATTRIBUTE_ITEM]))
        value = compiled if compiled is not None else value
    return prefix + _text(found.get(_ATTRIBUTE_NAME, b"")), value


def _primitive(item: bytes) -> Value:
    """Return what an attribute was compiled to; ``None`` where it is a text or a reference."""
    for number, value in fields(item):
        if number != _ITEM_PRIMITIVE:
            continue
        for kind, said in fields(_bytes(value)):
            if kind in (_INTEGER, _HEX) and isinstance(said, int):
                return said
            if kind == _BOOLEAN:
                return said != 0
    return None


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where a message should")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode("utf-8", "replace")
