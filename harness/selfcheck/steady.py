"""Clocks and sensors: what a run's figures are measured by. All of it is read off one quiet run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from harness.payload.probe_events import RunLog, Sample
from harness.payload.probe_fields import Numbers
from harness.phone.battery import parse_battery
from harness.phone.thermal import celsius, leading_zone
from harness.selfcheck.result import Check, Finding, NotCheckableError, broken, holds
from harness.selfcheck.subject import Subject

# The way here takes some milliseconds, longer over Wi-Fi or on a busy computer: of 1.5 s that is a few percent.
_PACE_TOLERANCE = 0.1
_COLDEST_C, _HOTTEST_C = 5.0, 95.0
# A sentence names so many denied files and counts the rest.
_NAMED = 4
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_THERMAL = "/sys/class/thermal/thermal_zone*/temp"
_CPUFREQ = "/sys/devices/system/cpu/cpu{}/cpufreq/{}"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _boot_id(subject: Subject) -> Finding:
    boot_id = subject.facts.boot_id
    if boot_id is None or not _UUID.fullmatch(boot_id):
        refused = [entry.errno for entry in subject.facts.denied if entry.path == _BOOT_ID]
        return broken(f"{_BOOT_ID}: {refused[0] if refused else f'{boot_id!r} is no boot id'}")
    return holds(f"boot {boot_id[:8]}…", boot_id=boot_id)


def _pace(subject: Subject) -> Finding:
    quiet = subject.quiet_run
    start, end = quiet.log.start, quiet.log.end
    if start is None or end is None or end.why != "exit":
        return broken(f"a run of sleep did not end by itself ({end.why if end else 'no end'})")
    phone_s, boot_s = (end.mono_ns - start.mono_ns) / 1e9, (end.boot_ns - start.boot_ns) / 1e9
    ratio = phone_s / quiet.seconds_here
    said = f"{phone_s:.3f} s on the phone in {quiet.seconds_here:.3f} s here (ratio {ratio:.3f})"
    stamps = [(sample.mono_ns, sample.boot_ns) for sample in quiet.log.samples]
    if abs(ratio - 1) > _PACE_TOLERANCE or any(b < a for a, b in pairwise(stamps)):
        return broken(f"CLOCK_MONOTONIC: {said}; it must go on at this computer's pace", ratio=ratio)
    if abs(boot_s - phone_s) > 0.01 or end.boot_ns < end.mono_ns:
        return broken(f"CLOCK_BOOTTIME went {boot_s:.3f} s while CLOCK_MONOTONIC went {phone_s:.3f} s", ratio=ratio)
    return holds(f"{said}; slept {(end.boot_ns - end.mono_ns) / 1e9:.0f} s since its start", ratio=ratio)


def _temperature(subject: Subject) -> Finding:
    log = subject.quiet_run.log
    zones = log.sensors.zones if log.sensors is not None else ()
    types = [zone.type for zone in zones]
    raws = _last_known([sample.milli_c for sample in log.samples], len(types))
    readable = sum(celsius(*pair) is not None for pair in zip(types, raws, strict=True))
    at = leading_zone(types, raws)
    if at is None:
        refused = _refused(log, "thermal_zone")
        return broken(
            f"of {len(types)} thermal zones {readable} tell a temperature, none of skin, battery or CPU: "
            + (_named(refused) if refused else f"{_THERMAL} was not refused, there is none (ENOENT)"),
            refused=refused,
        )
    value = celsius(types[at], raws[at])
    said = f"{types[at]} {value} °C (thermal_zone{zones[at].zone}); {readable} of {len(types)} zones tell a temperature"
    if value is None or not _COLDEST_C < value < _HOTTEST_C:
        return broken(f"{said}: no phone in a room is at that temperature")
    return holds(said, zone=types[at], celsius=value)


def _clocks(subject: Subject) -> Finding:
    return _per_core(subject, "scaling_cur_freq", [sample.cur_khz for sample in subject.quiet_run.log.samples])


def _caps(subject: Subject) -> Finding:
    return _per_core(subject, "scaling_max_freq", [sample.cap_khz for sample in subject.quiet_run.log.samples])


def _per_core(subject: Subject, file: str, readings: Sequence[Numbers]) -> Finding:
    log = subject.quiet_run.log
    cpus = log.sensors.cpus if log.sensors is not None else ()
    values = _last_known(readings, len(cpus))
    # A core that is off has no clock, and its files are not there.
    off = {core.cpu for core in subject.facts.cores if core.online is False}
    missing = [cpu for cpu, value in zip(cpus, values, strict=True) if value is None and cpu not in off]
    if missing or not cpus:
        # Cores of one clock share a file, and only the first one's is tried.
        refused = _refused(log, file)
        first = _CPUFREQ.format(missing[0] if missing else 0, file)
        return broken(
            f"{len(missing)} of {len(cpus)} cores do not tell theirs: "
            + (_named(refused) if refused else f"{first} is not there (ENOENT), or holds no number"),
            refused=refused,
        )
    known = [value // 1000 for value in values if value is not None]
    switched_off = f"; {len(off)} are off" if off else ""
    return holds(f"{len(known)} cores tell theirs: {min(known)} to {max(known)} MHz{switched_off}")


def _memory(subject: Subject) -> Finding:
    samples = subject.quiet_run.log.samples
    known = [sample.mem_available_bytes for sample in samples if sample.mem_available_bytes is not None]
    if not known or len(known) < len(samples):
        return broken(f"{len(known)} of {len(samples)} samples tell MemAvailable of /proc/meminfo")
    return holds(f"MemAvailable {min(known) >> 20} MiB in each of {len(samples)} samples", min_bytes=min(known))


def _battery(subject: Subject) -> Finding:
    result = subject.shell("dumpsys", "battery")
    battery = parse_battery(result.stdout)
    if result.exit_code != 0 or battery.level_pct is None or battery.temp_c is None:
        needed = [battery.nulls[name] for name in ("level_pct", "temp_c") if name in battery.nulls]
        why = "; ".join(needed) or result.stderr.decode("utf-8", "replace").strip()[-200:]
        return broken(f"dumpsys battery: {why or f'exit code {result.exit_code}'}")
    if battery.overridden:
        return broken("dumpsys battery shows values that somebody froze with `dumpsys battery set` or `unplug`")
    return holds(f"{battery.level_pct} %, {battery.temp_c} °C, charger: {battery.plugged}", level_pct=battery.level_pct)


def _own_processes(subject: Subject) -> Finding:
    living: list[Sample] = [sample for sample in subject.quiet_run.log.samples if sample.processes]
    if not living:
        raise NotCheckableError("no sample saw the run alive")
    middle = living[len(living) // 2]
    names = {"rss_bytes": "VmRSS", "hwm_bytes": "VmHWM", "threads": "Threads", "anon_bytes": "RssAnon"}
    missing = [label for name, label in names.items() if getattr(middle, name) is None]
    told = {label: getattr(middle, name) for name, label in names.items()}
    if missing:
        return broken(f"/proc/PID/status of a run lacks {', '.join(missing)}", **told)
    return holds(f"/proc/PID/status of a run tells all: {middle.rss_bytes} bytes resident", **told)


def _last_known(readings: Sequence[Numbers], count: int) -> list[int | None]:
    """Return the last value that was read, for each place; zones are read only once a second."""
    last: list[int | None] = [None] * count
    for reading in readings:
        for place, value in enumerate(reading[:count]):
            if value is not None:
                last[place] = value
    return last


def _refused(log: RunLog, part: str) -> list[str]:
    """Return the files that exist and may not be read, whose path contains ``part``, each with its errno."""
    denied = log.sensors.denied if log.sensors is not None else ()
    return [f"{entry.path} ({entry.errno})" for entry in denied if part in entry.path]


def _named(words: Sequence[str]) -> str:
    more = len(words) - _NAMED
    return ", ".join(words[:_NAMED]) + (f" and {more} more" if more > 0 else "")


_SEND = "send us the parcel; until then figures of this phone lack "

CHECKS = (
    Check(
        "boot-id",
        "the phone tells which start it is in",
        "a restart must be told from a lost connection",
        "send us the parcel; on this phone a restart can look like a pulled cable",
        _boot_id,
    ),
    Check(
        "clock-pace",
        "the phone's CLOCK_MONOTONIC and CLOCK_BOOTTIME go on at wall speed",
        "every time that is published is read off them",
        "figures of this phone cannot be trusted: send us the parcel",
        _pace,
    ),
    Check(
        "temperature",
        "a thermal zone of skin, battery or CPU can be read",
        "without one nobody knows whether a phone was cool before a run",
        _SEND + "the proof that it was cool",
        _temperature,
    ),
    Check(
        "clocks",
        "each core tells its clock (scaling_cur_freq)",
        "a slow clock explains a slow figure",
        _SEND + "the clock they ran at",
        _clocks,
    ),
    Check(
        "clock-caps",
        "each core tells the clock it is limited to (scaling_max_freq)",
        "throttling shows there first",
        _SEND + "the proof that nothing was throttled",
        _caps,
    ),
    Check(
        "memory",
        "the phone tells how much memory is available",
        "a run on a full phone is slow or dies",
        _SEND + "the memory that was left",
        _memory,
    ),
    Check(
        "battery",
        "dumpsys battery tells level and temperature",
        "runs on an empty battery are slowed down",
        "if values are frozen: adb shell dumpsys battery reset; else send us the parcel",
        _battery,
    ),
    Check(
        "own-processes",
        "the memory of our own runs can be read in /proc",
        "the memory curve of a run comes from there",
        _SEND + "the curve of memory (the peak comes from the kernel all the same)",
        _own_processes,
    ),
)
