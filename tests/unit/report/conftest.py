from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def make(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    """The factory of records."""
    return load_module(Path(__file__).with_name("factory.py"))


class Element:
    """One element of a parsed page."""

    def __init__(self, tag: str, attributes: dict[str, str], parent: Element | None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children: list[Element | str] = []

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @property
    def text(self) -> str:
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return " ".join(" ".join(parts).split())

    def all(self, tag: str | None = None, **wanted: str) -> list[Element]:
        """Descendants by tag, class (``cls``) or any attribute."""
        cls = wanted.pop("cls", None)
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if (
                    (tag is None or child.tag == tag)
                    and (cls is None or cls in child.classes)
                    and all(child.attributes.get(key) == value for key, value in wanted.items())
                ):
                    found.append(child)
                found += child.all(tag, **wanted, **({"cls": cls} if cls else {}))
        return found

    def one(self, tag: str | None = None, **wanted: str) -> Element:
        found = self.all(tag, **wanted)
        assert len(found) == 1, f"{len(found)} elements {tag} {wanted}"
        return found[0]


@pytest.fixture(scope="session")
def parse():
    """Return a function that parses a page into elements and complains about one that is not closed."""
    from html.parser import HTMLParser

    void = {"meta", "link", "br", "img", "hr", "input"}

    class Tree(HTMLParser):
        def __init__(self) -> None:
            super().__init__(convert_charrefs=True)
            self.root = Element("root", {}, None)
            self.here = self.root

        def handle_starttag(self, tag, attrs):
            element = Element(tag, {key: value or "" for key, value in attrs}, self.here)
            self.here.children.append(element)
            if tag not in void:
                self.here = element

        def handle_endtag(self, tag):
            assert self.here.tag == tag, f"</{tag}> closes <{self.here.tag}>"
            assert self.here.parent is not None
            self.here = self.here.parent

        def handle_data(self, data):
            self.here.children.append(data)

    def parse(page: str) -> Element:
        tree = Tree()
        tree.feed(page)
        tree.close()
        assert tree.here is tree.root, f"<{tree.here.tag}> is not closed"
        return tree.root

    return parse
