"""``dumpsys power``, ``deviceidle``, ``activity``, ``window``: is the screen on, may the phone doze, who is in front.

Formats: AOSP ``PowerManagerService``, ``DeviceIdleController``, ``ActivityTaskManagerService`` and
``WindowManagerService``, whose words changed from release to release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A phone that shows the time on a dark screen (Dozing) is off; one that dreams has a screen saver on a lit one.
_WAKEFULNESS = {b"Awake": "on", b"Dreaming": "on", b"Asleep": "off", b"Dozing": "off"}
_WAKE_LINE = re.compile(rb"^\s*mWakefulness=(\w+)", re.MULTILINE)
_DISPLAY_LINE = re.compile(rb"^\s*Display Power: state=(\w+)", re.MULTILINE)
_POWERED_LINE = re.compile(rb"^\s*mIsPowered=(true|false)", re.MULTILINE)

# In order of trust: the resumed activity of Android 10+, of older ones, the app that has the keys, the window that has
# them (a dialogue or the lock screen may lie over the app). A component is PACKAGE/CLASS.
_COMPONENT = rb"(?P<app>[A-Za-z][\w.]*/[\w.$]+)"
_FRONT_LINES = tuple(
    re.compile(rb"^\s*" + start + rb"[^\n]*?[ {]" + _COMPONENT, re.MULTILINE)
    for start in (
        rb"topResumedActivity[=:]",
        rb"(?:mResumedActivity|ResumedActivity)[=:]",
        rb"mFocusedActivity[=:]",
        rb"mFocusedApp=",
        rb"mCurrentFocus=",
    )
)


@dataclass(frozen=True)
class Power:
    """What ``dumpsys power`` tells: ``screen`` is ``on`` or ``off``, ``powered`` whether a charger is on."""

    screen: str | None
    powered: bool | None


def parse_power(data: bytes) -> Power:
    """Read the output of ``dumpsys power``; what it does not tell is ``None``.

    The wakefulness decides: the display's own line lags behind it while the screen fades.
    """
    wake, display, powered = _WAKE_LINE.search(data), _DISPLAY_LINE.search(data), _POWERED_LINE.search(data)
    screen = _WAKEFULNESS.get(wake[1]) if wake else None
    if screen is None and display:
        screen = "on" if display[1] in (b"ON", b"VR") else "off"
    return Power(screen, None if powered is None else powered[1] == b"true")


def parse_doze_enabled(data: bytes) -> bool | None:
    """Read what ``dumpsys deviceidle enabled [deep|light]`` said: ``1`` or ``0`` (Android 6 puts a blank before it)."""
    return {b"1": True, b"0": False}.get(data.strip())


def parse_foreground(data: bytes) -> str | None:
    """Return the component in front, ``PACKAGE/CLASS``, from ``dumpsys activity activities`` and ``dumpsys window``."""
    for line in _FRONT_LINES:
        found = line.search(data)
        if found is not None:
            return found["app"].decode("ascii", "replace")
    return None
