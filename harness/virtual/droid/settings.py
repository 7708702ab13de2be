"""``settings``: get, put, list and delete by name space. They are kept on ``/data`` and outlive a reboot."""

from __future__ import annotations

from .store import EFFECTS, Store, Table, complain, say

NAME_SPACES = ("system", "secure", "global")
DEFAULTS: dict[str, dict[str, str]] = {
    "system": {
        "screen_off_timeout": "600000",
        "screen_brightness": "102",
        "screen_brightness_mode": "1",
        "accelerometer_rotation": "0",
    },
    "secure": {"android_id": "c4f1a87b03d2e956", "default_input_method": "com.android.inputmethod.latin/.LatinIME"},
    "global": {
        "adb_enabled": "1",
        "airplane_mode_on": "0",
        "stay_on_while_plugged_in": "0",
        "low_power": "0",
        "window_animation_scale": "1.0",
        "device_provisioned": "1",
    },
}
_USAGE = "usage: settings [--user <USER_ID> | current] get|put|delete|list NAMESPACE [KEY [VALUE]]"


def run(_name: str, arguments: list[str]) -> int:
    """Answer ``settings [--user USER] VERB NAMESPACE [KEY [VALUE]]``."""
    words = arguments[2:] if arguments[:1] == ["--user"] else list(arguments)
    if len(words) < 2:
        complain(_USAGE)
        return 255
    verb, space, rest = words[0], words[1], words[2:]
    if space not in NAME_SPACES:
        complain(f"Invalid namespace '{space}'")
        return 255
    store = Store()
    held = {**DEFAULTS[space], **store.settings().get(space, {})}
    held = {key: value for key, value in held.items() if value is not None}
    if verb == "get" and len(rest) == 1:
        say(str(held.get(rest[0], "null")))
    elif verb == "list" and not rest:
        for key in sorted(held):
            say(f"{key}={held[key]}")
    elif verb == "put" and len(rest) in (2, 3):
        put(store, space, rest[0], rest[1])
    elif verb == "delete" and len(rest) == 1:
        put(store, space, rest[0], None)
        say(f"Deleted {1 if rest[0] in held else 0} rows")
    else:
        complain(_USAGE)
        return 255
    return 0


def put(store: Store, space: str, key: str, value: str | None) -> None:
    """Change one setting, ``None`` deletes it; those that mean something to the phone take effect."""
    store.change_settings(lambda table: table.setdefault(space, {}).update({key: value}))
    effect = EFFECTS.get(key)
    if effect is not None:

        def change(table: Table) -> None:
            if value is not None and value.isdigit():
                table[effect] = int(value)
            else:
                table.pop(effect, None)

        store.ask(change)
