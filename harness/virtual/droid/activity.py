"""``am`` and ``pm``: accepted where a benchmark uses them; there are no apps to start or to list but the system's."""

from __future__ import annotations

import os

from .store import Store, complain, say

_PACKAGES = ("android", "com.android.settings", "com.android.shell", "com.android.systemui")
_PROTECTED = ("android.intent.action.AIRPLANE_MODE", "android.intent.action.BOOT_COMPLETED")
_PROTECTED_SDK = 24
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
        if action in _PROTECTED and Store().sdk >= _PROTECTED_SDK:
            return _deny(action)
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


def _deny(action: str) -> int:
    """Refuse a broadcast that only the system may send."""
    complain("")
    complain("Exception occurred while executing 'broadcast':")
    complain(
        f"java.lang.SecurityException: Permission Denial: not allowed to send broadcast {action} "
        f"from pid={os.getpid()}, uid={os.getuid()}"
    )
    return 255


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
