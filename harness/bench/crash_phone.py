"""What a phone can tell right after a run went wrong, asked for in one round trip. What it does not give has a reason.

Each source has a bound in bytes and in seconds on the phone itself. When the phone is lost meanwhile, what had come
stays. A whole ``dumpsys meminfo`` is not asked for: it takes seconds on a phone with many apps.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from harness.bench.gather import split_sections
from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.log import phone_logger
from harness.core.transport import STDOUT, Transport

ASK_S = 20.0
# Longer than any source may take on the phone: who is silent for so long is gone.
_SILENT_S = 8.0
MOST_BYTES = 2 << 20
_EACH_BYTES = 256 << 10
_EACH_S = 4
TOMBSTONES = "/data/tombstones"
_MOST_TOMBSTONES = 3
TOMBSTONE_NAME = "tombstone_"
# Before the name of a file that was read.
_TOMBSTONE = "file "
# What `timeout` says of a program that it had to end, by its age.
_KILLED = frozenset({124, 137, 143})
# What toybox's `timeout` also says of a program that ended before it began to wait for it: then its words count.
_MAY_BE_WELL = 127
_COMPLAINT = re.compile(rb"(?:\S{0,200}/)?(?:sh|cat|ls|dmesg|logcat|timeout|toybox)(?:\[\d{1,4}\])?: ")
# What is longer is no complaint but what a program told before it failed.
_LINES_OF_AN_ERROR = 4
_NOT_TOLD = "the phone's shell did not say"
#: What is asked for, and how people call it.
SOURCES = {
    "crash": "logcat -b crash",
    "tombstones": TOMBSTONES,
    "dmesg": "dmesg",
    "meminfo": "/proc/meminfo at death",
}
# $1 is a word that no phone can guess. Old phones have neither `timeout` nor `tail`: there the deadline bounds. What a
# pipe does not hand on, the exit code of its first program, is a line of its own at the end.
_SCRIPT = f"""
exec 2>&1
mark=$1
begin() {{ echo "$mark begin $1"; }}
end() {{ code=$?; echo; echo "$mark end $code"; }}
bound=
timeout {_EACH_S} true 2>/dev/null && bound='timeout {_EACH_S}'
last() {{ tail -c {_EACH_BYTES}; }}
first() {{ head -c {_EACH_BYTES}; }}
command -v tail >/dev/null 2>&1 || {{ last() {{ cat; }}; first() {{ cat; }}; }}
told() {{ $bound "$@" || {{ code=$?; echo; echo "$mark code $code"; }}; }}
begin meminfo; cat /proc/meminfo; end
begin crash; told logcat -b crash -d -v threadtime | last; end
begin tombstones; told ls -t {TOMBSTONES} | first; end
ls -t {TOMBSTONES} 2>/dev/null | grep '^tombstone_[0-9][0-9]*$' | head -n {_MOST_TOMBSTONES} | while read -r name; do
  begin "{_TOMBSTONE}$name"; told cat "{TOMBSTONES}/$name" | first; end
done
begin dmesg; told dmesg | last; end
"""


@dataclass(frozen=True)
class PhoneSaid:
    """What came, by the names of :data:`SOURCES` and the names of tombstones, and why the rest did not.

    ``cut`` says what is missing of a text that is there.
    """

    texts: Mapping[str, bytes]
    missing: Mapping[str, str]
    cut: Mapping[str, str] = field(default_factory=dict)


NOTHING_ASKED = PhoneSaid({}, dict.fromkeys(SOURCES, "this is no Android phone"))


def ask_phone(transport: Transport) -> PhoneSaid:
    """Ask for everything at once. A phone that does not answer leaves reasons, never an error."""
    mark = f"mnn-farm-{secrets.token_hex(8)}"
    out, why = _read(transport, mark)
    return sort_out(out, mark, why)


def _read(transport: Transport, mark: str) -> tuple[bytes, str]:
    """Return what came until the end, or until the phone was lost, and why it ended early."""
    parts, size = [], 0
    try:
        deadline = Deadline(ASK_S, "collecting what the phone tells of a failure", transport.name)
        with transport.stream(["sh", "-c", _SCRIPT, "sh", mark], deadline=deadline, idle_s=_SILENT_S) as stream:
            for fd, chunk in stream:
                if fd == STDOUT:
                    parts.append(chunk)
                    size += len(chunk)
                if size > MOST_BYTES:
                    return b"".join(parts), f"the phone told more than {MOST_BYTES} bytes"
    except PhoneError as error:
        phone_logger(__name__, transport.name).warning("not everything could be collected: %s", error)
        return b"".join(parts), error.message
    return b"".join(parts), ""


def sort_out(out: bytes, mark: str, why: str = "") -> PhoneSaid:
    """Return the sources in what the phone printed; ``why`` it ended early, if it did."""
    texts: dict[str, bytes] = {}
    missing: dict[str, str] = {}
    cut: dict[str, str] = {}
    for title, section in split_sections(out, mark).items():
        name = title.removeprefix(_TOMBSTONE)
        text, code = _without_code(section.text, mark)
        code = section.code if code is None else code
        if code == _MAY_BE_WELL and _COMPLAINT.match(text.lstrip()) is None:
            code = 0
        if not code or (text.strip() and (code in _KILLED or text.count(b"\n") >= _LINES_OF_AN_ERROR)):
            texts[name] = text
            if code:
                cut[name] = f"the rest: {_why(b'', code)}"
            elif len(section.text) >= _EACH_BYTES - 1:  # without a line break at its end
                part = "end" if title.startswith(_TOMBSTONE) else "begin"
                cut[name] = f"its {part}: {_EACH_BYTES >> 10} KiB were asked for"
        else:
            missing[name] = _why(text, code)
    listed = texts.pop("tombstones", None)
    if listed is not None and not any(name.startswith(TOMBSTONE_NAME) for name in (*texts, *missing)):
        missing["tombstones"] = "there is none"
    for name in SOURCES:
        if name not in texts and name not in missing and (name != "tombstones" or listed is None):
            missing[name] = why or _NOT_TOLD
    return PhoneSaid(texts, missing, cut)


def _without_code(text: bytes, mark: str) -> tuple[bytes, int | None]:
    head, found, code = text.rstrip(b"\n").rpartition(f"{mark} code ".encode())
    if not found or not code.isdigit():
        return text, None
    return head.rstrip(b"\n"), int(code)


def _why(text: bytes, code: int) -> str:
    said = text.decode("utf-8", "replace").strip()
    if code in _KILLED:
        return f"it took longer than {_EACH_S} s"
    first = said.splitlines()[0].strip()[:160] if said else ""
    return first or f"it ended with exit code {code} and said nothing"


def names_process(text: bytes, pids: Collection[int]) -> bool:
    """Return whether a tombstone is of one of these processes."""
    return any(re.search(rb"\bpid: %d, tid: " % pid, text) is not None for pid in pids)
