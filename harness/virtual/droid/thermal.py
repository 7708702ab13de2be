"""``dumpsys thermalservice`` and ``cmd thermalservice``.

Section order and wording: AOSP ``ThermalManagerService.dumpInternal`` and its HAL wrappers. Everything after
``HAL Ready: false`` is missing; the overall status counts skin sensors only; HAL 1.x reports no status; the line of an
AIDL HAL has two blanks.
"""

from __future__ import annotations

import struct

from .store import Store, Table, complain, say

SKIN = 3
_TYPE_NAMES = {
    -1: "UNKNOWN", 0: "CPU", 1: "GPU", 2: "BATTERY", 3: "SKIN", 4: "USB_PORT", 5: "POWER_AMPLIFIER", 6: "BCL_VOLTAGE",
    7: "BCL_CURRENT", 8: "BCL_PERCENTAGE", 9: "NPU",
}  # fmt: skip


def float_text(value: float | None) -> str:
    """Write a number as Java writes a float of it: ``53.300003`` comes from the HAL's own arithmetic."""
    if value is None or value != value:
        return "NaN"
    single = struct.unpack("f", struct.pack("f", value))[0]
    for digits in range(1, 10):
        text = f"{single:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", single):
            number = float(text)
            return repr(number) if abs(number) < 1e7 else f"{number:.1f}"
    return repr(single)


def status_of(limits: list[float | None], celsius: float) -> int:
    """Return Android's status of a sensor with these limits."""
    return max((state for state, limit in enumerate(limits) if limit is not None and celsius >= limit), default=0)


def readings(store: Store) -> list[Table]:
    """Return every sensor with its value and status now."""
    thermal, zones = store.spec["thermal"], store.now["zones"]
    found = []
    for sensor in thermal["sensors"]:
        value = sensor["value"] if sensor["zone"] is None else zones[sensor["zone"]]
        reports = thermal["reports_status"] and thermal["hal"] not in ("1.0", "1.1")
        status = status_of(sensor["limits"], value) if reports and sensor["limits"] else 0
        found.append({**sensor, "value": value, "status": status})
    return found


def overall_status(store: Store, sensors: list[Table]) -> int:
    """Return the phone's status: an override, else the worst of its skin sensors."""
    override = store.asked.get("thermal_status")
    if isinstance(override, int):
        return override
    if store.spec["thermal"]["hal"] == "none":
        return 0
    return max((int(sensor["status"]) for sensor in sensors if sensor["type"] == SKIN), default=0)


def dump(store: Store) -> list[str]:
    """Return the lines of ``dumpsys thermalservice``."""
    thermal = store.spec["thermal"]
    sensors = readings(store)
    overridden = "thermal_status" in store.asked
    lines = [f"IsStatusOverride: {str(overridden).lower()}"]
    for name, callbacks in (("ThermalEventListeners", 1), ("ThermalStatusListeners", 3)):
        lines += [f"{name}:", f"\tcallbacks: {callbacks}", "\tkilled: false", "\tbroadcasts count: -1"]
    lines.append(f"Thermal Status: {overall_status(store, sensors)}")
    lines.append("Cached temperatures:")
    if thermal["hal"] == "none":
        return [*lines, "HAL Ready: false"]
    lines += [_temperature(sensor) for sensor in _cached(store, sensors)]
    version = "AIDL 1 " if thermal["hal"] == "aidl" else thermal["hal"]
    lines += ["HAL Ready: true", "HAL connection:", f"\tThermalHAL {version} connected: yes"]
    lines.append("Current temperatures from HAL:")
    lines += [_temperature(sensor) for sensor in sensors]
    lines.append("Current cooling devices from HAL:")
    if thermal["lists_cooling"]:
        step = store.now["step"]
        lines += [f"\tCoolingDevice{{mValue={step}, mType=2, mName={name}}}" for name in thermal["cooling"]]
    if thermal["thresholds"] != "absent":
        lines.append("Temperature static thresholds from HAL:")
        style = _hidl_threshold if thermal["thresholds"] == "hidl" else _aidl_threshold
        if thermal["thresholds"] != "empty":
            lines += [style(sensor) for sensor in sensors if sensor["limits"]]
    return lines


def _cached(store: Store, sensors: list[Table]) -> list[Table]:
    """Return what the service remembers. The HAL calls back when a status changes; the rest is as old as the boot."""
    old = store.spec["now"]["zones"]
    return [
        sensor if sensor["status"] or sensor["zone"] is None else {**sensor, "value": old[sensor["zone"]]}
        for sensor in sensors
        if sensor["type"] >= 0
    ]


def _temperature(sensor: Table) -> str:
    value = float_text(sensor["value"])
    return (
        f"\tTemperature{{mValue={value}, mType={sensor['type']}, mName={sensor['name']}, mStatus={sensor['status']}}}"
    )


def _list(values: list[float | None]) -> str:
    return "[" + ", ".join(float_text(value) for value in values) + "]"


def _aidl_threshold(sensor: Table) -> str:
    hot, cold = _list(sensor["limits"]), _list([None] * 7)
    return (
        f"\tTemperatureThreshold{{mType={sensor['type']}, mName={sensor['name']}, mHotThrottlingThresholds={hot},"
        f" mColdThrottlingThresholds={cold}}}"
    )


def _hidl_threshold(sensor: Table) -> str:
    hot, cold = _list(sensor["limits"]), _list([None] * 7)
    return (
        f"\t{{.type = {_TYPE_NAMES.get(sensor['type'], 'UNKNOWN')}, .name = {sensor['name']},"
        f" .hotThrottlingThresholds = {hot}, .coldThrottlingThresholds = {cold}, .vrThrottlingThreshold = NaN}}"
    )


def command(store: Store, arguments: list[str]) -> int:
    """Answer ``cmd thermalservice``."""
    if arguments == ["reset"]:
        store.ask(lambda table: table.pop("thermal_status", None))
        return 0
    if len(arguments) == 2 and arguments[0] == "override-status":
        word = arguments[1]
        if not word.isdigit() or int(word) > 6:
            complain(f"Invalid status: {word}" if word.isdigit() else f'Error: For input string: "{word}"')
            return 255
        store.ask(lambda table: table.update(thermal_status=int(word)))
        return 0
    for line in (
        "Thermal service (thermalservice) commands:",
        "  help",
        "    Print this help text.",
        "",
        "  override-status STATUS",
        "    sets and locks the thermal status of the device to STATUS.",
        "    status code is defined in android.os.Temperature.",
        "  reset",
        "    unlocks the thermal status of the device.",
    ):
        say(line)
    return 0 if arguments in ([], ["help"], ["-h"]) else 255
