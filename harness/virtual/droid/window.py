"""``wm``: size and density, which may be overridden and reset."""

from __future__ import annotations

import re

from .store import Store, complain, say

_VALUES = {"size": re.compile(r"[0-9]{2,5}x[0-9]{2,5}"), "density": re.compile(r"[0-9]{2,4}")}


def run(_name: str, arguments: list[str]) -> int:
    """Answer ``wm size|density [VALUE|reset]``."""
    store = Store()
    display = store.spec["display"]
    physical = {"size": f"{display['width']}x{display['height']}", "density": str(display["density"])}
    if not arguments or arguments[0] not in physical or len(arguments) > 2:
        complain("Window manager (window) commands:")
        return 0 if not arguments else 255
    what = arguments[0]
    key = f"wm_{what}"
    if len(arguments) == 1:
        say(f"Physical {what}: {physical[what]}")
        if key in store.asked:
            say(f"Override {what}: {store.asked[key]}")
        return 0
    word = arguments[1]
    if word == "reset":
        store.ask(lambda table: table.pop(key, None))
    elif _VALUES[what].fullmatch(word):
        store.ask(lambda table: table.update({key: word}))
    else:
        complain(f"Error: bad {what} {word}")
        return 255
    return 0
