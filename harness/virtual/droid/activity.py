"""``am`` and ``pm``: accepted where a benchmark uses them; there are no apps to start or to list but the system's."""

from __future__ import annotations

from .store import complain, say

_PACKAGES = ("android", "com.android.settings", "com.android.shell", "com.android.systemui")
_QUIET = ("force-stop", "kill", "kill-all", "set-debug-app", "clear-debug-app", "wait-for-broadcast-idle")


def run(name: str, arguments: list[str]) -> int:
    """Answer ``am`` or ``pm``."""
    return _packages(arguments) if name == "pm" else _activities(arguments)


def _activities(words: list[str]) -> int:
    if words[:1] and words[0] in _QUIET:
        return 0
    if words[:1] == ["broadcast"]:
        action = words[words.index("-a") + 1] if "-a" in words[:-1] else ""
        say(f"Broadcasting: Intent {{ act={action} flg=0x400000 }}")
        say("Broadcast completed: result=0")
        return 0
    if words[:1] and words[0] in ("start", "start-activity"):
        target = words[words.index("-n") + 1] if "-n" in words[:-1] else words[-1]
        say(f"Starting: Intent {{ cmp={target} }}")
        complain("Error type 3")
        complain(f"Error: Activity class {{{target}}} does not exist.")
        return 1
    if words[:1] == ["get-current-user"]:
        say("0")
        return 0
    complain(f"Error: unknown command '{words[0]}'" if words else "Activity manager (activity) commands:")
    return 255 if words else 0


def _packages(words: list[str]) -> int:
    if words[:2] == ["list", "packages"]:
        wanted = [word for word in words[2:] if not word.startswith("-")]
        for package in _PACKAGES:
            if not wanted or wanted[0] in package:
                say(f"package:{package}")
        return 0
    if words[:1] == ["path"] and len(words) == 2:
        if words[1] not in _PACKAGES:
            return 1
        say(f"package:/system/app/{words[1].rpartition('.')[2]}.apk")
        return 0
    if words[:2] == ["list", "features"]:
        say("feature:reqGlEsVersion=0x30002")
        return 0
    complain(f"Unknown command: {words[0]}" if words else "Package manager (package) commands:")
    return 255 if words else 0
