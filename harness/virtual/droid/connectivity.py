"""``cmd connectivity airplane-mode``, which came with Android 9. There are no radios: only the setting changes."""

from __future__ import annotations

from . import settings
from .store import Store, complain, say

_SDK = 28


def command(store: Store, words: list[str]) -> int:
    """Answer ``cmd connectivity WORD``. A service without commands says so and ends with 0, as Java's Binder does."""
    if store.sdk < _SDK:
        complain("No shell command implementation.")
        return 0
    if words in (["airplane-mode", "enable"], ["airplane-mode", "disable"]):
        settings.put(store, "global", "airplane_mode_on", str(int(words[1] == "enable")))
        return 0
    if words == ["airplane-mode"]:
        held = store.settings().get("global", {}).get("airplane_mode_on", "0")
        say("enabled" if held == "1" else "disabled")
        return 0
    say("Connectivity service commands:")
    say("  airplane-mode [enable|disable]")
    return 0 if words in ([], ["help"]) else 255
