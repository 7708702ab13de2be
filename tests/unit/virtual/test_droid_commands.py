from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.phone.battery import parse_battery
from harness.phone.power import Power, parse_doze_enabled, parse_foreground, parse_power
from harness.virtual.droid import activity, cmd, disk, dumpsys, keys, main, settings, svc, window
from harness.virtual.mailbox import asked_folder
from harness.virtual.tree import SERVICES

Droid = Callable[..., Any]

Run = Callable[..., str]


@pytest.fixture
def phone(droid: Droid, request: pytest.FixtureRequest) -> Any:
    return droid(getattr(request, "param", "high"))


@pytest.fixture
def run(phone: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line and returns what it printed; the exit code must be as said."""
    for module in (activity, cmd, disk, dumpsys, keys, settings, svc, window):
        monkeypatch.setattr(module, "Store", phone.store)
    modules = {
        "am": activity,
        "cmd": cmd,
        "df": disk,
        "dumpsys": dumpsys,
        "input": keys,
        "settings": settings,
        "svc": svc,
        "wm": window,
    }

    def run(line: str, code: int = 0, *, errors: bool = False) -> str:
        name, *words = line.split()
        assert modules[name].run(name, words) == code
        captured = capsys.readouterr()
        return captured.err if errors else captured.out

    return run


def test_every_command_on_the_phone_has_a_module() -> None:
    assert set(SERVICES) == set(main.MODULES)


def test_a_setting_is_kept_and_null_when_it_is_not_there(run: Run) -> None:
    assert run("settings get global low_power") == "0\n"
    assert run("settings get global nothing_like_this") == "null\n"
    run("settings put global low_power 1")
    assert run("settings get global low_power") == "1\n"
    assert "low_power=1\n" in run("settings list global")
    assert run("settings delete global low_power") == "Deleted 1 rows\n"
    assert run("settings get global low_power") == "null\n"
    assert run("settings delete global low_power") == "Deleted 0 rows\n"


@pytest.mark.parametrize(
    "line", ["settings get everywhere x", "settings fetch global x", "settings", "settings put global x"]
)
def test_a_wrong_settings_line_is_refused(run: Run, line: str) -> None:
    assert run(line, 255, errors=True) != ""


def test_settings_that_mean_something_reach_the_behaviour(run: Run, phone: Any) -> None:
    run("settings put system screen_off_timeout 15000")
    run("svc power stayon true")
    assert phone.store().asked["screen_off_timeout_ms"] == 15000
    assert phone.store().asked["stay_on"] == 15
    assert "mStayOn=true" in run("dumpsys power")
    run("svc power stayon false")
    assert "mStayOn=false" in run("dumpsys power")


def test_keys_switch_the_screen_at_once(run: Run) -> None:
    assert "mWakefulness=Awake" in run("dumpsys power")
    run("input keyevent 26")
    power = run("dumpsys power")
    assert "mWakefulness=Asleep" in power
    assert "Display Power: state=OFF" in power
    run("input keyevent KEYCODE_WAKEUP")
    assert "mWakefulness=Awake" in run("dumpsys power")


@pytest.mark.parametrize(("phone", "word"), [("high", "Asleep"), ("exynos", "Dozing")], indirect=["phone"])
def test_a_screen_that_shows_the_time_dozes(run: Run, word: str) -> None:
    run("input keyevent SLEEP")
    power = run("dumpsys power")
    assert f"mWakefulness={word}\n" in power
    assert "Display Power: state=OFF" in power


def test_the_state_from_outside_counts_once_it_includes_the_request(run: Run, phone: Any) -> None:
    run("input keyevent 223")
    number = phone.store().asked["number"]
    state = phone.store().now
    phone.publish({**state, "asked": number, "wakefulness": "Awake"})  # it woke up again since
    assert "mWakefulness=Awake" in run("dumpsys power")


def test_a_key_that_nobody_outside_has_seen_yet_is_not_lost_by_what_is_asked_next(run: Run, phone: Any) -> None:
    run("input keyevent 223")
    run("settings put system screen_off_timeout 30000")
    assert phone.store().asked["wakefulness"] == "Asleep"
    number = phone.store().asked["number"]
    phone.publish({**phone.store().now, "asked": number, "wakefulness": "Asleep"})
    run("settings put system screen_off_timeout 40000")
    assert "wakefulness" not in phone.store().asked, "a key counts once"


@pytest.mark.parametrize(("phone", "there"), [("kirin", False), ("exynos", True)], indirect=["phone"])
def test_the_thermal_service_came_with_android_10(run: Run, there: bool) -> None:
    assert ("thermalservice" in run("dumpsys -l")) is there
    if there:
        assert "HAL Ready: true" in run("dumpsys thermalservice")
    else:
        assert run("dumpsys thermalservice", errors=True) == "Can't find service: thermalservice\n"
        assert run("cmd thermalservice reset", 20, errors=True) == "cmd: Can't find service: thermalservice\n"


def test_size_and_density_can_be_overridden(run: Run) -> None:
    assert run("wm size") == "Physical size: 1440x3168\n"
    run("wm size 720x1584")
    assert run("wm size") == "Physical size: 1440x3168\nOverride size: 720x1584\n"
    run("wm size reset")
    assert run("wm size") == "Physical size: 1440x3168\n"
    run("wm density many", 255)


def test_forced_idle_is_said(run: Run) -> None:
    assert run("dumpsys deviceidle force-idle") == "Now forced in to deep idle mode\n"
    assert run("dumpsys deviceidle get deep") == "IDLE\n"
    run("dumpsys deviceidle unforce")
    assert run("dumpsys deviceidle get deep") == "ACTIVE\n"


def test_doze_is_forbidden_by_mode_and_only_what_changes_is_said(run: Run) -> None:
    assert run("dumpsys deviceidle enabled") == "1\n"
    assert run("dumpsys deviceidle disable light") == "Light idle mode disabled\n"
    assert run("dumpsys deviceidle enabled deep") == "1\n"
    assert run("dumpsys deviceidle enabled light") == "0\n"
    assert run("dumpsys deviceidle enabled all") == "0\n"
    assert run("cmd deviceidle disable all") == "Deep idle mode disabled\n"
    assert run("dumpsys deviceidle enable") == "Deep idle mode enabled\nLight idle mode enabled\n"
    assert run("dumpsys deviceidle enable") == ""
    run("dumpsys deviceidle disable sleep", 255)


def test_a_boot_keeps_settings_in_force_and_allows_doze_again(run: Run, phone: Any) -> None:
    run("settings put system screen_off_timeout 15000")
    run("settings put global stay_on_while_plugged_in 7")
    run("dumpsys deviceidle disable")
    (asked_folder(phone.folder) / "asked.json").unlink()  # it is made anew at each start
    assert "mStayOn=true" in run("dumpsys power")
    assert phone.store().asked == {"number": 1, "screen_off_timeout_ms": 15000, "stay_on": 7}
    assert run("dumpsys deviceidle enabled") == "1\n"


@pytest.mark.parametrize("phone", ["low", "exynos"], indirect=True)
def test_airplane_mode_is_a_command_since_android_9(run: Run, phone: Any) -> None:
    assert run("cmd connectivity airplane-mode") == "disabled\n"
    run("cmd connectivity airplane-mode enable")
    assert run("cmd connectivity airplane-mode") == "enabled\n"
    assert run("settings get global airplane_mode_on") == "1\n"
    run("cmd connectivity airplane-mode perhaps", 255)


@pytest.mark.parametrize("phone", ["kirin"], indirect=True)
def test_android_8_refuses_airplane_mode_both_ways(run: Run, phone: Any) -> None:
    assert run("cmd connectivity airplane-mode enable", errors=True) == "No shell command implementation.\n"
    said = run("am broadcast -a android.intent.action.AIRPLANE_MODE --ez state true", 255, errors=True)
    assert "SecurityException: Permission Denial: not allowed to send broadcast android.intent.action.AIRPLANE" in said
    assert run("settings get global airplane_mode_on") == "0\n"


@pytest.mark.parametrize(
    ("phone", "resumed", "focused"),
    [
        ("kirin", "    mResumedActivity: ActivityRecord{", "  mFocusedApp=AppWindowToken{91c02d4 token=Token{"),
        ("exynos", "    topResumedActivity=ActivityRecord{", "  mFocusedApp=ActivityRecord{"),
        ("tensor", "  ResumedActivity: ActivityRecord{", "  mFocusedApp=ActivityRecord{"),
    ],
    indirect=["phone"],
)
def test_the_app_in_front_is_named_as_each_android_does(run: Run, phone: Any, resumed: str, focused: str) -> None:
    assert resumed in run("dumpsys activity activities")
    assert focused in run("dumpsys window")
    run("input keyevent SLEEP")
    assert resumed not in run("dumpsys activity activities")
    asleep = run("dumpsys window")
    assert focused in asleep
    assert "mCurrentFocus=null" in asleep


@pytest.mark.parametrize("phone", ["high", "mid", "low", "exynos", "tensor", "kirin"], indirect=True)
def test_every_phone_tells_battery_screen_doze_and_front_in_words_that_the_harness_reads(run: Run, phone: Any) -> None:
    battery = parse_battery(run("dumpsys battery").encode())
    assert battery.nulls == {}
    assert (battery.level_pct, battery.plugged) == (phone.profile.battery.level, phone.profile.battery.plugged)
    assert parse_doze_enabled(run("dumpsys deviceidle enabled deep").encode()) is True
    for key, screen in (("SLEEP", "off"), ("WAKEUP", "on")):
        run(f"input keyevent {key}")
        assert parse_power(run("dumpsys power").encode()) == Power(screen, powered=True)
        front = run("dumpsys activity activities") + run("dumpsys window")
        assert parse_foreground(front.encode()) == "com.android.launcher3/com.android.launcher3.Launcher"


@pytest.mark.parametrize("phone", ["high", "mid", "low", "exynos", "tensor", "kirin"], indirect=True)
def test_the_gpu_line_has_vendor_renderer_and_version(run: Run, phone: Any) -> None:
    lines = [line for line in run("dumpsys SurfaceFlinger").splitlines() if line.startswith("GLES: ")]
    gpu = phone.profile.gpu
    assert lines == [f"GLES: {gpu.vendor}, {gpu.renderer}, {gpu.version}"]
    assert "OpenGL ES 3.2" in lines[0]


@pytest.mark.parametrize(("phone", "there"), [("high", True), ("low", False), ("kirin", False)], indirect=["phone"])
def test_gpu_memory_is_told_by_newer_kernels_only(run: Run, there: bool) -> None:
    assert ("Memory snapshot for GPU 0:\nGlobal total: 48234496\n" in run("dumpsys gpu")) is there


def test_commands_of_services_are_reached_through_cmd(run: Run) -> None:
    assert run("cmd battery get level") == "71\n"
    assert run("cmd settings get global adb_enabled") == "1\n"
    assert run("cmd window size") == "Physical size: 1440x3168\n"
    assert "package:android\n" in run("cmd package list packages")
    run("cmd gpu nothing", 255)


def test_df_names_what_is_not_there(run: Run) -> None:
    assert run("df /nowhere/at/all", 1, errors=True) == "df: /nowhere/at/all: No such file or directory\n"


def test_holes_take_no_room(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "real").write_bytes(b"x" * 200_000)
    assert 195 <= disk.used_kb(str(tmp_path)) <= 300
