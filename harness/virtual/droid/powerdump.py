"""``dumpsys power``, ``display``, ``window`` and ``deviceidle``: the lines that tools look for."""

from __future__ import annotations

from .store import Store, complain, say


def power(store: Store) -> list[str]:
    """Return the lines of ``dumpsys power``."""
    battery, awake = store.battery(), store.wakefulness
    settings = store.settings()
    stay_on = bool(int(store.asked.get("stay_on", 0))) and bool(battery["plugged"])
    timeout = settings.get("system", {}).get("screen_off_timeout", "600000")
    return [
        "POWER MANAGER (dumpsys power)",
        "",
        "Power Manager State:",
        "  mDirty=0x0",
        f"  mWakefulness={'Dozing' if awake == 'Asleep' and store.spec['display']['dozes'] else awake}",
        "  mWakefulnessChanging=false",
        f"  mIsPowered={str(bool(battery['plugged'])).lower()}",
        f"  mPlugType={battery['plugged']}",
        f"  mBatteryLevel={battery['level']}",
        f"  mStayOn={str(stay_on).lower()}",
        "  mBootCompleted=true",
        "  mSystemReady=true",
        f"  mHoldingDisplaySuspendBlocker={str(awake == 'Awake').lower()}",
        "",
        "Settings and Configuration:",
        f"  mScreenOffTimeoutSetting={timeout}",
        "",
        f"Display Power: state={'ON' if awake == 'Awake' else 'OFF'}",
    ]


def display(store: Store) -> list[str]:
    """Return the lines of ``dumpsys display``."""
    return ["DISPLAY MANAGER (dumpsys display)", f"  mScreenState={'ON' if store.wakefulness == 'Awake' else 'OFF'}"]


def window(store: Store) -> list[str]:
    """Return the lines of ``dumpsys window``."""
    size = store.spec["display"]
    return [
        "WINDOW MANAGER POLICY STATE (dumpsys window policy)",
        f"    mAwake={str(store.wakefulness == 'Awake').lower()}",
        "    mDreamingLockscreen=false",
        "WINDOW MANAGER DISPLAY CONTENTS (dumpsys window displays)",
        f"  Display: mDisplayId=0 init={size['width']}x{size['height']} {size['density']}dpi",
    ]


def deviceidle(store: Store, words: list[str]) -> int:
    """Answer ``dumpsys deviceidle WORD``; forced idle changes what is said and nothing else."""
    state = str(store.asked.get("deviceidle", "ACTIVE"))
    if words[0] == "force-idle":
        store.ask(lambda table: table.update(deviceidle="IDLE"))
        say("Now forced in to deep idle mode")
    elif words[0] == "unforce":
        store.ask(lambda table: table.pop("deviceidle", None))
        say("Light state: ACTIVE, deep state: ACTIVE")
    elif words[0] == "get" and words[1:] in (["deep"], ["light"]):
        say(state if words[1] == "deep" else "ACTIVE")
    elif words[0] == "disable":
        say("Deep idle mode disabled")
        say("Light idle mode disabled")
    elif words[0] == "enable":
        say("Deep idle mode enabled")
        say("Light idle mode enabled")
    else:
        complain(f"Unknown option: {words[0]}")
        return 255
    return 0
