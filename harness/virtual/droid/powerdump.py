"""``dumpsys power``, ``display``, ``window``, ``activity`` and ``deviceidle``: the lines that tools look for."""

from __future__ import annotations

from .store import Store, complain, say

_HOME = "com.android.launcher3/com.android.launcher3.Launcher"
_NEW_NAMES_SDK, _SHORT_NAME_SDK = 29, 32


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
    """Return the lines of ``dumpsys window``. With the screen off no window has the keys; the app in front stays so."""
    size = store.spec["display"]
    awake = store.wakefulness == "Awake"
    focus = f"Window{{5d1e7a3 u0 {_HOME}}}" if awake else "null"
    return [
        "WINDOW MANAGER POLICY STATE (dumpsys window policy)",
        f"    mAwake={str(awake).lower()}",
        "    mDreamingLockscreen=false",
        "WINDOW MANAGER DISPLAY CONTENTS (dumpsys window displays)",
        f"  Display: mDisplayId=0 init={size['width']}x{size['height']} {size['density']}dpi",
        f"  mCurrentFocus={focus}",
        f"  mFocusedApp={_focused_app(store.sdk)}",
    ]


def _focused_app(sdk: int) -> str:
    record = f"ActivityRecord{{b04c3f1 u0 {_HOME} t2}}"
    return record if sdk >= _NEW_NAMES_SDK else f"AppWindowToken{{91c02d4 token=Token{{3f8e6b7 {record}}}}}"


def activity(store: Store) -> list[str]:
    """Return the lines of ``dumpsys activity activities`` that name the resumed activity; asleep, none is."""
    record = f"ActivityRecord{{b04c3f1 u0 {_HOME} t2}}"
    lines = ["ACTIVITY MANAGER ACTIVITIES (dumpsys activity activities)"]
    if store.wakefulness != "Awake":
        return lines
    if store.sdk < _NEW_NAMES_SDK:
        return [*lines, f"    mResumedActivity: {record}"]
    resumed = "ResumedActivity" if store.sdk >= _SHORT_NAME_SDK else "mResumedActivity"
    return [*lines, f"    topResumedActivity={record}", f"  {resumed}: {record}"]


def deviceidle(store: Store, words: list[str]) -> int:
    """Answer ``dumpsys deviceidle WORD``; what is asked for changes what is said and nothing else."""
    state = str(store.asked.get("deviceidle", "ACTIVE"))
    if words[0] == "force-idle":
        store.ask(lambda table: table.update(deviceidle="IDLE"))
        say("Now forced in to deep idle mode")
    elif words[0] == "unforce":
        store.ask(lambda table: table.pop("deviceidle", None))
        say("Light state: ACTIVE, deep state: ACTIVE")
    elif words[0] == "get" and words[1:] in (["deep"], ["light"]):
        say(state if words[1] == "deep" else "ACTIVE")
    elif words[0] in ("enable", "disable", "enabled") and words[1:] in ([], ["all"], ["deep"], ["light"]):
        _allow_doze(store, words[0], ["deep", "light"] if words[1:] in ([], ["all"]) else words[1:])
    else:
        complain(f"Unknown option: {words[0]}")
        return 255
    return 0


def _allow_doze(store: Store, verb: str, modes: list[str]) -> None:
    """Say whether the phone may doze, or change it until the next boot; only what changes is said."""
    off = set(store.asked.get("doze_off", []))
    if verb == "enabled":
        say(str(int(not off & set(modes))))
        return
    for mode in modes:
        if (mode in off) is (verb == "enable"):
            say(f"{mode.capitalize()} idle mode {verb}d")
    off = off - set(modes) if verb == "enable" else off | set(modes)
    store.ask(lambda table: table.update(doze_off=sorted(off)))
