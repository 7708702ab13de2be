"""The rungs up to a phone that is ours: it answers, takes files, runs a program, is free and tells its facts."""

from __future__ import annotations

import secrets
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path

from harness.adb.transport import AdbTransport
from harness.bench.phone import Terms, connect, open_transport
from harness.bench.recovery import Ladder
from harness.core.adbprogram import adb_word
from harness.core.deadline import Deadline
from harness.core.errors import FarmError, HarnessError, PhoneError, ProbeError, storage_reason
from harness.core.ids import utc_now
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.core.transport import PushItem, checked
from harness.diagnose.rung import Outcome, State, broke, broke_by, held
from harness.diagnose.subject import Subject
from harness.payload.probe import Probe
from harness.phone.health import HealthStore
from harness.phone.storage import parse_df
from harness.plan.model import Recovery
from harness.plan.tiers import load_tier_rules

ASK_S = 20.0
# More than the probe and what else of ours is brought before the payload, too little to disturb who measures there.
_TRIAL_BYTES = 1 << 20
_NOEXEC = "The storage is mounted noexec, or the vendor's policy forbids the shell's programs there: no chmod helps."
_NOEXEC_OUT = (
    "Where the line of /proc/mounts says noexec: reboot the phone, or as root `mount -o remount,exec /data`.",
    "Where it does not: an owner's policy or a work profile forbids it; take the phone out of it, or another phone.",
)
_READ_ONLY_OUT = (
    "Reboot the phone: Android mounts /data read-only after an error of its storage.",
    "If it comes back read-only, the storage is failing: save what is on it, and take another phone.",
)
_GARBLED_OUT = (
    "Run the command below: nothing but `whole` and the exit code 7 may come.",
    "Take the phone off hubs and Wi-Fi, to a port of the computer itself, with another cable.",
    "Then `mnn-farm doctor`: two adb versions on one computer disturb each other.",
)
# As benchmarks have it by default: below, phones save power or go off.
BATTERY_FLOOR_PCT = 20
RECOVERY = Recovery(wait_s=20.0, tries=1, quarantine=False)


def phone_answers(subject: Subject) -> Outcome:
    """Check that what its shell prints, and its exit code, arrive as they were sent."""
    if subject.endpoint is None:
        if subject.unreachable is None:
            raise HarnessError("neither a phone nor why there is none")
        return replace(broke_by(subject.unreachable), reproduce=listing(subject.request.adb))
    subject.say("asking its shell")
    transport = open_transport(subject.endpoint)
    ladder = Ladder(transport, RECOVERY, subject.say)
    try:
        ladder.until_done(ladder.shake_hands)
    except PhoneError as error:
        outcome = broke_by(error)
        if error.reason is Reason.ADB_ERROR:
            outcome = replace(outcome, advice=_GARBLED_OUT)
        again = shlex.join([*adb_of(subject.endpoint), "shell", "echo whole; exit 7"])
        return replace(outcome, reproduce=f"{again}; echo $?")
    subject.transport = transport
    return held(f"{transport.name}, state {transport.state()}")


def storage_takes_files(subject: Subject) -> Outcome:
    """Bring a file to our folder and read it back; then see whether there is room for the payload."""
    transport, base = subject.transport, subject.transport.base_dir
    subject.say("bringing a trial file")
    remote = f"{base}/trial-{secrets.token_hex(4)}"
    deadline = Deadline(ASK_S * 3, "a trial file", transport.name)
    again = on_adb(subject, f"df {base}; echo x >{base}/x && rm {base}/x")
    with tempfile.TemporaryDirectory(prefix="mnn-farm-") as scratch:
        local = Path(scratch) / "trial"
        local.write_bytes(secrets.token_bytes(_TRIAL_BYTES))
        try:
            transport.push([PushItem(local, remote)], deadline=deadline)
            copy = transport.shell(["cat", remote], deadline=deadline).stdout
        except PhoneError as error:
            outcome = broke_by(error)
            mount = mount_of(subject) if error.reason is Reason.READ_ONLY else ""
            advice = _READ_ONLY_OUT if error.reason is Reason.READ_ONLY else outcome.advice
            evidence = (*filter(None, [mount]), *outcome.evidence)
            return replace(outcome, advice=advice, reproduce=again, evidence=evidence)
        finally:
            _remove(subject, remote)
        if copy != local.read_bytes():
            detail = f"a file of {_TRIAL_BYTES} bytes came back as {len(copy)} other ones"
            return replace(broke(Reason.PAYLOAD_CORRUPT, detail), reproduce=again)
    # Programs meet a full or read-only storage, too, and it may not be the same that adbd sees.
    made = transport.shell(["sh", "-c", 'echo x >"$1" && rm "$1"', "sh", remote], deadline=deadline)
    if made.exit_code != 0:
        said = (made.stderr or made.stdout).decode("utf-8", "replace").strip()
        reason = storage_reason(said) or Reason.PUSH_FAILED
        return replace(broke(reason, f"a program cannot write to {base} ({said[-200:]})"), reproduce=again)
    room = parse_df(transport.shell(["df", base], deadline=deadline).stdout, base)
    return held("room is not told" if room.free_bytes is None else f"{room.free_bytes / 1e9:.2f} GB free")


def _remove(subject: Subject, remote: str) -> None:
    """Remove the trial file; a phone that was lost meanwhile is told of by its error, and it is small."""
    transport = subject.transport
    try:
        transport.shell(["rm", "-f", remote], deadline=Deadline(ASK_S, "removing a trial file", transport.name))
    except PhoneError:
        subject.say(f"the trial file {remote} stays on the phone")


def probe_runs(subject: Subject) -> Outcome:
    """Put our static program there and run it: no library, no Android is needed for it."""
    subject.say("starting the probe")
    try:
        subject.probe = Probe.install(subject.transport, progress=subject.say)
    except ProbeError as error:
        if error.reason is not Reason.NOEXEC:
            raise
        again = on_adb(subject, f"ls -lZ {subject.transport.base_dir}/bin; {subject.transport.base_dir}/bin/probe-*")
        evidence = [line for line in (mount_of(subject), error.message) if line]
        outcome = broke(Reason.NOEXEC, error.message, evidence=evidence)
        return replace(outcome, cause=_NOEXEC, advice=_NOEXEC_OUT, code="noexec", reproduce=again)
    argv = [subject.probe.path, "version"]
    result = subject.transport.shell(argv, deadline=Deadline(ASK_S, "the probe's version", subject.transport.name))
    checked(result, subject.transport.name, argv)
    return held(f"{subject.probe.path.rpartition('/')[2]} answers")


def ground_gives_way(subject: Subject) -> Outcome | None:
    """Return how the phone's storage or our program broke since they held, ``None`` if they hold or cannot be asked."""
    try:
        outcomes = (test(subject) for test in (storage_takes_files, probe_runs))
        return next((outcome for outcome in outcomes if outcome.state is State.BROKE), None)
    except FarmError:
        return None


def phone_is_ready(subject: Subject) -> Outcome:
    """Take its lease, put right what an earlier run left, read its facts, and see that it has power."""
    if subject.endpoint is None:
        raise HarnessError("a phone that answers has an endpoint")
    terms = Terms("a diagnosis", subject.request.sizes.wait_lease_s, RECOVERY, BATTERY_FLOOR_PCT)
    subject.phone = connect(subject.endpoint, load_tier_rules(), subject.say, terms)
    facts = subject.phone.facts
    hold = HealthStore().held(subject.phone.identity.id, utc_now())
    if hold is not None and hold.by == "person":
        return broke(Reason.HELD, f"it is {hold.text}")
    battery = facts.battery
    if battery is not None and battery.level_pct is not None and battery.level_pct < BATTERY_FLOOR_PCT:
        return broke(Reason.LOW_BATTERY, f"its battery is at {battery.level_pct:g} %, below {BATTERY_FLOOR_PCT} %")
    words = [facts.model, facts.soc, f"Android {facts.android_release}" if facts.android_release else None]
    return held(", ".join([*filter(None, words), "/".join(facts.abis), f"{facts.cores} cores"]))


def on_adb(subject: Subject, script: str) -> str:
    """Return the command for a person's terminal that runs a line of shell on the phone."""
    if not isinstance(subject.transport, AdbTransport) or subject.endpoint is None:
        return script
    return shlex.join([*adb_of(subject.endpoint), "shell", script])


def adb_of(at: Endpoint) -> list[str]:
    """Return the begin of a command for a person's terminal that means this phone."""
    port = [] if (at.adb_host, at.adb_port) == ("127.0.0.1", 5037) else ["-H", at.adb_host, "-P", str(at.adb_port)]
    return [adb_word(), *port, "-s", at.transport_serial]


def listing(servers: str | None) -> str:
    """Return the command that lists the phones of the servers that ``--adb`` named, or of the default one."""
    lists = [
        shlex.join([adb_word(), "-H", host, "-P", port, "devices", "-l"])
        for host, _, port in (one.strip().rpartition(":") for one in (servers or "").split(","))
        if host
    ]
    return "; ".join(lists) or shlex.join([adb_word(), "devices", "-l"])


def mount_of(subject: Subject) -> str:
    """Return the phone's line on how the storage of our folder is mounted, ``""`` where it does not tell."""
    transport = subject.transport
    try:
        told = transport.shell(["cat", "/proc/mounts"], deadline=Deadline(ASK_S, "the mounts", transport.name)).stdout
    except PhoneError:  # evidence beside the error that led here
        return ""
    rows = [line.split() for line in told.decode("utf-8", "replace").splitlines()]
    above = [row for row in rows if len(row) > 3 and f"{transport.base_dir}/".startswith(f"{row[1].rstrip('/')}/")]
    # Of two on the same place the later one lies on top.
    best = max(enumerate(above), key=lambda one: (len(one[1][1]), one[0]), default=None)
    return "" if best is None else f"/proc/mounts: {' '.join(best[1][:4])}"
