from __future__ import annotations

from typing import Any

import pytest

from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, PhoneLostError
from harness.core.transport import ShellResult
from harness.phone.ledger import Entry, LedgerFile
from harness.phone.prepare import Change, Prepared, Restored, prepare, restore
from harness.phone.settings import STAY_ON
from harness.plan.model import Preparation

NOTHING = Preparation(screen="keep", stay_awake=False, doze_off=False)
EVERYTHING = Preparation(screen="on", animations_off=True, airplane=True)
DEFAULTS = (
    Change("setting global/stay_on_while_plugged_in", "0", "7"),
    Change("setting system/screen_off_timeout", "60000", "86400000"),
    Change("doze deep", "1", "0"),
    Change("doze light", "1", "0"),
    Change("screen state", "off", "on"),
)
DENIED = ShellResult(0, b"", b"java.lang.SecurityException: no INJECT_EVENTS\n")


def ready(phone: Any, preparation: Preparation | None = None) -> Prepared:
    return prepare(phone, preparation or Preparation(), lambda _: None, phone.deadline())


def back(phone: Any) -> Restored:
    return restore(phone, phone.deadline())


def there_and_back(phone: Any) -> None:
    ready(phone)
    back(phone)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.phone.settings._SETTLE_POLL_S", 0.0)


def test_a_plan_that_asks_for_nothing_changes_nothing(phone: Any) -> None:
    before = phone.state()
    assert ready(phone, NOTHING) == Prepared((), {}, "org.toy.home/.Desk", "off", ())
    assert phone.state() == before
    assert phone.owed() == []


def test_the_defaults_wake_a_phone_and_keep_it_awake(phone: Any) -> None:
    assert ready(phone) == Prepared(DEFAULTS, {}, "org.toy.home/.Desk", "on", ())
    assert phone.state() == {
        "global/stay_on_while_plugged_in": "7",
        "system/screen_off_timeout": "86400000",
        "screen": "on",
        "may_doze": frozenset(),
    }


def test_everything_goes_back_in_reverse_order(phone: Any) -> None:
    before = phone.state()
    changes = ready(phone, EVERYTHING).changes
    assert len(changes) == 9
    restored = back(phone)
    assert [(one.what, one.old, one.new) for one in restored.back if one.what != "airplane mode"] == [
        (one.what, one.new, one.old) for one in reversed(changes) if one.what != "airplane mode"
    ]
    assert phone.state() == {**before, "global/airplane_mode_on": "0"}


def test_a_setting_that_was_not_there_is_not_there_again(phone: Any) -> None:
    ready(phone, Preparation(screen="keep", stay_awake=False, doze_off=False, animations_off=True))
    assert phone.settings["global/window_animation_scale"] == "0"
    back(phone)
    assert "global/window_animation_scale" not in phone.settings


def test_restoring_twice_is_restoring_once(phone: Any) -> None:
    before = phone.state()
    ready(phone)
    back(phone)
    assert back(phone) == Restored((), {}, {}, ())
    assert phone.state() == before
    assert not phone.ledger.exists()


def test_the_old_value_is_owed_before_anything_is_changed(phone: Any) -> None:
    ready(phone)
    first_write = next(index for index, line in enumerate(phone.commands) if line.startswith("sh -c mkdir"))
    changing = [index for index, line in enumerate(phone.commands) if line.startswith(("settings put", "input"))]
    assert first_write < min(changing)
    assert phone.owed() == [(one.what, one.old, one.new) for one in DEFAULTS]


def test_wherever_the_phone_is_lost_what_was_changed_can_be_put_back(phone: Any) -> None:
    before = phone.state()
    there_and_back(phone)
    total = len(phone.commands)
    for after in range(total):
        phone.commands.clear()
        phone.lost_after = after
        with pytest.raises(PhoneLostError):
            there_and_back(phone)
        phone.lost_after = None
        assert back(phone).owed == {}
        assert phone.state() == before, f"lost after {after} commands"
        assert phone.owed() == []


def test_a_second_preparation_changes_nothing_and_keeps_the_first_values(phone: Any) -> None:
    ready(phone)
    owed = phone.owed()
    assert ready(phone).changes == ()
    assert phone.owed() == owed


def test_after_a_reboot_only_what_is_missing_is_done(phone: Any) -> None:
    before = phone.state()
    ready(phone)
    phone.may_doze, phone.screen = {"deep", "light"}, "off"
    assert ready(phone).changes == DEFAULTS[2:]
    back(phone)
    assert phone.state() == before


def test_what_another_plan_changed_is_put_back_first(phone: Any) -> None:
    before = phone.state()
    ready(phone, Preparation(screen="keep", doze_off=False))
    prepared = ready(phone, Preparation(screen="keep", stay_awake=False))
    assert prepared.changes == DEFAULTS[2:4]
    assert prepared.notes == (
        "setting system/screen_off_timeout is back at 60000: an earlier run had changed it",
        "setting global/stay_on_while_plugged_in is back at 0: an earlier run had changed it",
    )
    assert phone.state() == {**before, "may_doze": frozenset()}
    assert [name for name, _, _ in phone.owed()] == ["doze deep", "doze light"]


def test_what_an_earlier_run_owes_and_cannot_be_put_back_is_noted_and_stays_owed(phone: Any) -> None:
    ready(phone, Preparation(screen="keep", doze_off=False))
    phone.refuses["settings put global"] = DENIED
    phone.settings["system/screen_off_timeout"] = "15000"
    prepared = ready(phone, NOTHING)
    assert [note.split(":")[0] for note in prepared.notes] == [
        "setting system/screen_off_timeout is left alone",
        "setting global/stay_on_while_plugged_in is still owed by an earlier run",
    ]
    assert phone.owed() == [("setting " + STAY_ON, "0", "7")]


def test_a_screen_that_the_plan_wants_off_goes_off_and_on_again_and_nothing_keeps_it_on(phone: Any) -> None:
    phone.screen = "on"
    prepared = ready(phone, Preparation(screen="off"))
    assert [one.what for one in prepared.changes] == ["doze deep", "doze light", "screen state"]
    assert prepared.screen == "off"
    back(phone)
    assert phone.screen == "on"


def test_a_phone_that_may_sleep_is_noted(phone: Any) -> None:
    assert ready(phone, Preparation(screen="off")).notes == ()
    phone.powered = False
    dark = "no charger is on and the screen is off: the phone may sleep during a run"
    assert ready(phone, Preparation(screen="off")).notes == (dark,)
    locked = "no charger is on and a lock screen goes dark by itself: the phone may sleep during a run"
    assert ready(phone, Preparation(screen="on")).notes == (locked,)


def test_what_somebody_changed_meanwhile_is_left_alone(phone: Any) -> None:
    ready(phone)
    phone.settings["system/screen_off_timeout"] = "15000"
    restored = back(phone)
    assert restored.left_alone == {
        "setting system/screen_off_timeout": "somebody changed it to 15000 meanwhile (it was 60000)"
    }
    assert restored.owed == {}
    assert phone.settings == {STAY_ON: "0", "system/screen_off_timeout": "15000"}
    assert phone.owed() == []


def test_what_somebody_changed_between_two_preparations_is_what_is_gone_back_to(phone: Any) -> None:
    ready(phone)
    phone.settings["system/screen_off_timeout"] = "15000"
    assert ready(phone).notes == (
        "somebody changed setting system/screen_off_timeout to 15000: that is what it will go back to",
    )
    back(phone)
    assert phone.settings["system/screen_off_timeout"] == "15000"


def test_what_somebody_put_back_is_not_put_back_again(phone: Any) -> None:
    ready(phone)
    phone.settings[STAY_ON] = "0"
    assert "setting " + STAY_ON not in [one.what for one in back(phone).back]


def test_what_the_phone_refuses_is_told_and_not_owed(phone: Any) -> None:
    phone.refuses["input"] = DENIED
    prepared = ready(phone)
    assert prepared.changes == DEFAULTS[:4]
    assert prepared.refused == {
        "screen state": "it stayed off (java.lang.SecurityException: no INJECT_EVENTS; "
        "switch on 'USB debugging (Security settings)' in its developer options)"
    }
    assert prepared.screen == "off"
    assert "screen state" not in [name for name, _, _ in phone.owed()]


def test_what_cannot_be_read_is_not_touched(phone: Any) -> None:
    phone.refuses["dumpsys deviceidle"] = ShellResult(0, b"", b"Can't find service: deviceidle\n")
    prepared = ready(phone)
    assert prepared.refused == dict.fromkeys(("doze deep", "doze light"), "Can't find service: deviceidle")
    assert not any(line.startswith("dumpsys deviceidle disable") for line in phone.commands)


def test_a_computer_without_androids_commands_is_left_as_it_is(phone: Any) -> None:
    for command in ("settings", "dumpsys", "input", "cmd", "am"):
        phone.refuses[command] = ShellResult(127, b"", f"sh: {command}: not found\n".encode())
    prepared = ready(phone, EVERYTHING)
    assert prepared.changes == ()
    assert len(prepared.refused) == 9
    assert set(prepared.refused.values()) == {"sh: settings: not found", "sh: dumpsys: not found"}
    assert prepared.screen is None


def test_a_change_that_may_have_been_made_stays_owed(phone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = phone.shell

    def deaf(argv: Any, **more: Any) -> ShellResult:
        if phone.settings[STAY_ON] == "7" and tuple(argv) == ("settings", "get", *STAY_ON.split("/")):
            return ShellResult(1, b"", b"Killed\n")
        result: ShellResult = real(argv, **more)
        return result

    monkeypatch.setattr(phone, "shell", deaf)
    assert ready(phone).refused == {"setting " + STAY_ON: "Killed"}
    assert phone.owed()[0] == ("setting " + STAY_ON, "0", "7")
    monkeypatch.undo()
    back(phone)
    assert phone.settings[STAY_ON] == "0"


def test_a_limit_of_the_phone_is_noted_and_goes_back(phone: Any) -> None:
    phone.limits["system/screen_off_timeout"] = "1800000"
    prepared = ready(phone)
    assert Change("setting system/screen_off_timeout", "60000", "1800000") in prepared.changes
    assert prepared.notes == ("setting system/screen_off_timeout: 86400000 was asked, the phone took 1800000",)
    assert ("setting system/screen_off_timeout", "60000", "1800000") in phone.owed()
    again = ready(phone)
    assert again.changes == ()
    assert ("setting system/screen_off_timeout", "60000", "1800000") in phone.owed()
    phone.limits.clear()
    assert back(phone).owed == {}
    assert phone.settings["system/screen_off_timeout"] == "60000"


def test_a_phone_that_takes_no_ledger_is_not_changed(phone: Any) -> None:
    before = phone.state()
    phone.refuses["sh -c mkdir"] = ShellResult(1, b"", b"mkdir: Read-only file system\n")
    prepared = ready(phone)
    assert prepared.changes == ()
    assert set(prepared.refused) == {one.what for one in DEFAULTS}
    assert "mkdir: Read-only file system" in prepared.refused["doze deep"]
    assert phone.state() == before


def test_what_cannot_be_put_back_stays_owed_and_the_rest_goes_back(phone: Any) -> None:
    before = phone.state()
    ready(phone)
    phone.refuses["settings put system"] = DENIED
    restored = back(phone)
    assert set(restored.owed) == {"setting system/screen_off_timeout"}
    assert [name for name, _, _ in phone.owed()] == ["setting system/screen_off_timeout"]
    assert len(restored.back) == 4
    phone.refuses.clear()
    assert [one.what for one in back(phone).back] == ["setting system/screen_off_timeout"]
    assert phone.state() == before


def test_what_a_newer_version_owes_is_kept_for_it(phone: Any) -> None:
    ready(phone)
    file = LedgerFile(phone, phone.deadline())
    entries, _ = file.read()
    foreign = [Entry("governor", "policy0", "schedutil", "performance", "lab", "2026-01-01T00:00:00Z")]
    foreign.append(Entry("setting", "global/adb_enabled", "0", "1", "lab", "2026-01-01T00:00:00Z"))
    file.write([*entries, *foreign])
    assert set(back(phone).owed) == {"governor policy0", "setting global/adb_enabled"}
    assert file.read()[0] == tuple(foreign)
    assert not any("adb_enabled" in line for line in phone.commands if line.startswith("settings"))


def test_a_damaged_ledger_is_noted_and_never_in_the_way(phone: Any) -> None:
    phone.ledger.parent.mkdir()
    phone.ledger.write_bytes(b"\x00" * 40)
    prepared = ready(phone)
    assert prepared.changes == DEFAULTS
    assert "was damaged" in prepared.notes[0]
    back(phone)
    phone.ledger.write_bytes(b"{")
    assert "was damaged" in back(phone).notes[0]


def test_airplane_mode_is_never_switched_on_over_the_air(phone: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phone, "serial", "192.168.7.31:5555")
    prepared = ready(phone, Preparation(airplane=True))
    assert prepared.refused == {"airplane mode": "adb reaches this phone through its own network, which this would end"}
    assert "global/airplane_mode_on" not in phone.settings


def test_a_phone_that_does_not_answer_in_time_is_a_deadline(phone: Any) -> None:
    with pytest.raises(DeadlineError):
        prepare(phone, Preparation(), lambda _: None, Deadline(0, "preparing", phone.name))


def test_people_are_told_that_it_prepares(phone: Any) -> None:
    said: list[str] = []
    prepare(phone, NOTHING, said.append, phone.deadline())
    assert said == ["preparing"]
