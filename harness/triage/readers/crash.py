"""Native crashes: libc's fatal line, debuggerd's block, a tombstone, gdb's stack, what crash services show. Pure.

Formats of Android 4.4 to 16 (debuggerd's ``tombstone_proto_to_text.cpp``, bionic's ``debuggerd_handler.cpp``); header
lines that are not known are passed over. Frames in ``/data/local/tmp`` often have neither symbol nor build id.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.triage.entry import Entry, Evidence

Owner = Literal["mnn", "driver", "npu", "app", "java", "system", "unknown"]

# One of these stands in every line that this reader wants to see.
NEEDLES = (
    "Fatal signal", " (SIG", "pid: ", "Abort message", "Cause: ", " pc 0", " from /", "ABI: '", "Cmdline: ", " in ??",
    "Build fingerprint", "SIGSEGV", "SIGABRT", "SIGILL", "SIGBUS", "SIGFPE", "SIGSYS", "#00 0x", "#01 0x", "#02 0x",
    "#03 0x", "#04 0x", "#05 0x", "#06 0x", "#07 0x",
)  # fmt: skip

_FATAL = re.compile(
    r"Fatal signal (?P<number>\d{1,2}) ?\((?P<signal>SIG\w{2,8})\)(?:, code (?P<code>-?\d{1,6})"
    r"(?: ?\((?P<name>\w{1,20})[^)]{0,60}\))?)?(?:, fault addr (?P<addr>0x[0-9a-fA-F]{1,16}|-{8}|[0-9a-fA-F]{1,16}))?"
    r".{0,60}?"
    r"(?: in tid (?P<tid>\d{1,7}) ?\((?P<thread>[^)]{0,40})\))?(?:, pid (?P<pid>\d{1,7}) ?\((?P<process>[^)]{0,40})\))?"
    r"(?:, syscall (?P<syscall>\d{1,4}))?\s{0,4}$"
)
_SIGNAL = re.compile(
    r"^\s{0,12}signal (?P<number>\d{1,2}) \((?P<signal>SIG\w{2,8})\), code (?P<code>-?\d{1,6}) "
    r"\((?P<name>\w{1,20})[^)]{0,60}\), fault addr (?P<addr>0x[0-9a-fA-F]{1,16}|-{8}|[0-9a-fA-F]{1,16})"
)
_WHO = re.compile(
    r"^\s{0,12}pid: (?P<pid>\d{1,7}), tid: (?P<tid>\d{1,7})(?:, name: (?P<thread>.{0,40}?))?\s{1,4}>>> "
    r"(?P<process>.{1,200}?) <<<"
)
# Crash services write `SIGILL 0x…` (Firebase) or `SIGSEGV(SEGV_MAPERR)` (Bugly, U-APM) instead of debuggerd's line.
_UPLOADED = re.compile(
    r"(?:^|[\s:])(?P<signal>SIG(?:SEGV|ABRT|ILL|BUS|FPE|SYS))"
    r"(?: ?\((?P<name>(?:SEGV|ILL|BUS|FPE|SYS|SI)_[A-Z]{2,12})\)|\s{1,3}(?P<addr>0x[0-9a-fA-F]{6,16})\s{0,4}$)"
)
# ndk-stack and Play put 0x before the address, and the former leaves `pc` out; Bugly adds the ABI and the build id.
_FRAME = re.compile(
    r"^\s{0,12}(?:\d{1,3} (?:\| )?)?#(?P<number>\d{1,3})\s{1,4}(?:pc (?:0x)?|0x)(?P<pc>[0-9a-fA-F]{1,16})\s{1,4}"
    r"(?P<path>(?!in )\S{1,400})(?: \(deleted\))?"
    r"(?: \(offset 0x[0-9a-f]{1,16}\))?(?: \((?!BuildId)(?P<function>.{1,600}?)(?:\+\d{1,12})?\))?"
    r"(?:\s{1,2}\(?BuildId: (?P<build_id>[0-9a-f]{1,64})\)?)?(?: \[[\w-]{3,12}(?:::[0-9a-f]{0,64})?\])?\s{0,4}$"
)
# Crash services name the function alone where they have the symbols, with an offset or with file and line.
_NAMED = re.compile(
    r"^\s{0,12}#(?P<number>\d{1,3})\s{1,4}pc (?P<pc>[0-9a-f]{8,16})\s{1,4}"
    r"(?P<function>[A-Za-z_~][^/]{1,600}?)(?:\+\d{1,10}| at \S{1,300}:\d{1,6})"
    r"(?: \[[\w-]{3,12}(?:::[0-9a-f]{0,64})?\])?\s{0,4}$"
)
_GDB = re.compile(
    r"^\s{0,8}#(?P<number>\d{1,3})\s{1,4}(?:0x(?P<pc>[0-9a-f]{1,16}) in )?(?P<function>\S{1,200}) \(.{0,200}\)"
    r"(?: from (?P<path>\S{1,300})| at (?P<file>\S{1,300}))?"
)
# Trackers of issues make links of what looks like a host's name.
_LINKED = re.compile(r"\[([\w.-]{1,80})\]\(https?://[^)\s]{1,200}\)")
_ABORT = re.compile(r"^\s{0,12}Abort message: '?(?P<text>.{0,1000}?)'?\s{0,4}$")
_CAUSE = re.compile(r"^\s{0,12}Cause: (?P<text>.{1,300}?)\s{0,4}$")
_ABI = re.compile(r"^\s{0,12}ABI: '(?P<abi>\w{1,10})'")

_MNN = re.compile(
    r"libMNN|libllm(?![_a-z-])|_mnn\.so|libmnn|MNNConvert|\bllm_(?:bench|demo)\b|\bfarm_runner\b|mnncli|mnnllm|^MNN::|_ZN3MNN"
)
_DRIVER = re.compile(
    r"libGLES_|libOpenCL|libGLESv|libEGL_|libq3dtools|libllvm-|libCB\.so|libgsl\.so|libadreno|vulkan\.|libvulkan|libmali|"
    r"libPVR|libpvr|libsrv_um|libusc|libufwriter|libglslcompiler|libVK|libsgpu|libxclipse|libmtk_drv|libgpud|libSPIRV|"
    r"libllvm_|libbcc|libclcore|libMaleoon|libhvgr|/vendor/lib(?:64)?/egl/"
)
_NPU = re.compile(r"libQnn|libSnpe|lib[ac]dsprpc|libneuron|libapu|libhiai|libeden|libenn|libhta|libhexagon")
_JAVA = re.compile(r"libart\.so|\.oat$|\.odex$|\.vdex$|\.jar$|dalvik-|\[anon:dalvik|libhwui|boot.{0,20}\.art$")
_PLUMBING = re.compile(
    r"(?:^|/)libc\.so|/linker(?:64)?$|libc\+\+|libunwind|libbacktrace|libclang_rt|\[vdso\]|libm\.so|libpthread|ld-linux|libdl\.so"
)
_SYSTEM = re.compile(r"^/(?:system|apex|vendor|odm|product|system_ext)/")
_MOST_FRAMES = 48
_MOST_CRASHES = 40


@dataclass(frozen=True)
class Frame:
    """One frame. ``function`` and ``build_id`` are ``None`` where the phone could not read the library."""

    number: int
    path: str
    function: str | None = None
    build_id: str | None = None
    pc: str | None = None

    @property
    def owner(self) -> Owner:
        """Whose code it is, by the library's name; C and C++ libraries and the linker are nobody's."""
        where = self.path if self.path else self.function or ""
        if _MNN.search(where) or (self.function is not None and self.function.startswith("MNN::")):
            return "mnn"
        for pattern, owner in ((_DRIVER, "driver"), (_NPU, "npu"), (_JAVA, "java")):
            if pattern.search(where):
                return owner  # type: ignore[return-value]
        if _PLUMBING.search(where) or not self.path or self.path[0] in "[<":
            return "unknown"
        # Crash services show the file's name alone.
        return "system" if _SYSTEM.search(where) and ".apk" not in where else "app"


@dataclass
class Crash:
    """One crash, as far as its lines told. ``lines`` are the few that are worth showing."""

    signal: str | None = None
    code: str | None = None
    address: str | None = None
    pid: int | None = None
    thread: str | None = None
    process: str | None = None
    abi: str | None = None
    abort: str | None = None
    causes: list[str] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    lines: list[Evidence] = field(default_factory=list)
    source: str = ""

    @property
    def top(self) -> Frame | None:
        """The first frame that is somebody's: below ``abort`` and its like."""
        return next((frame for frame in self.frames if frame.owner != "unknown"), None)

    @property
    def owner(self) -> Owner:
        """Whose code it died in, as far as there is a stack."""
        return "unknown" if self.top is None else self.top.owner

    @property
    def function(self) -> str | None:
        """The first function that is known of the library it died in: stripped ones name only what they export."""
        top = self.top
        if top is None or not top.path:
            return None if top is None else top.function
        return next((one.function for one in self.frames if one.path == top.path and one.function), None)

    @property
    def stands_on_mnn(self) -> bool:
        """Whether MNN is in the stack at all, or is the program."""
        return any(frame.owner == "mnn" for frame in self.frames) or bool(_MNN.search(self.process or ""))

    def sentence(self) -> str:
        """Return the crash as one line for rules."""
        top = self.top
        library = "" if top is None else top.path.rsplit("/", 1)[-1].rsplit("!", 1)[-1]
        parts = {
            "signal": self.signal,
            "code": self.code,
            "addr": self.address,
            "near_null": "yes" if _near_null(self.address) else "no",
            "owner": self.owner,
            "mnn": "yes" if self.stands_on_mnn else "no",
            "abi": self.abi,
            "process": self.process,
            "thread": self.thread,
            "library": library,
            "function": self.function,
            "frames": " < ".join(
                f"{frame.path.rsplit('/', 1)[-1]}({frame.function or ''})"[:90] for frame in self.frames[:8]
            ),
            "cause": "; ".join(self.causes),
            "abort": self.abort,
        }
        return "crash: " + " ".join(f"{name}=[{_tame(value)}]" for name, value in parts.items() if value)


def _tame(value: str) -> str:
    return value.replace("[", "(").replace("]", ")")[:300]


def _near_null(address: str | None) -> bool:
    return address is not None and not address.startswith("-") and int(address, 16) < 0x10000


class CrashReader:
    """Puts the lines of crashes together, also where the lines of two processes alternate."""

    def __init__(self) -> None:
        self.crashes: list[Crash] = []
        self._by_writer: dict[int | None, Crash] = {}
        self._source = ""

    def take(self, entry: Entry) -> None:
        """Look at one line."""
        if entry.source != self._source:
            self._source, self._by_writer = entry.source, {}
        text = _LINKED.sub(r"\1", entry.text) if "](http" in entry.text else entry.text
        if (match := _FATAL.search(text)) is not None:
            self._fatal(match, entry)
        elif (match := _WHO.match(text)) is not None:
            self._who(match, entry)
        elif (match := _SIGNAL.match(text)) is not None:
            self._signal(match, entry)
        elif (match := _ABORT.match(text)) is not None:
            self._told(entry, "abort", match["text"])
        elif (match := _CAUSE.match(text)) is not None:
            self._told(entry, "cause", match["text"])
        elif (match := _ABI.match(text)) is not None:
            self._abi = match["abi"]
        elif (match := _NAMED.match(text) or _FRAME.match(text) or _GDB.match(text)) is not None:
            self._frame(match, entry)
        elif (match := _UPLOADED.search(text)) is not None:
            self._signal(match, entry)

    _abi: str | None = None

    def _new(self, entry: Entry) -> Crash:
        crash = Crash(source=entry.source)
        if len(self.crashes) < _MOST_CRASHES:
            self.crashes.append(crash)
        self._by_writer[entry.pid if entry.kind == "logcat" else None] = crash
        return crash

    def _open(self, entry: Entry) -> Crash | None:
        writer = entry.pid if entry.kind == "logcat" else None
        return self._by_writer.get(writer)

    def _fatal(self, match: re.Match[str], entry: Entry) -> None:
        crash = self._new(entry)
        crash.signal, crash.code, crash.address = match["signal"], match["name"], match["addr"]
        crash.pid = int(match["pid"]) if match["pid"] else entry.pid
        crash.thread, crash.process = match["thread"], match["process"]
        crash.lines.append(entry.evidence[0])

    def _who(self, match: re.Match[str], entry: Entry) -> None:
        pid = int(match["pid"])
        # libc's own line for this process came before debuggerd's block, from another process.
        crash = next(
            (one for one in reversed(self.crashes) if one.pid == pid and one.source == entry.source and not one.frames),
            None,
        )
        writer = entry.pid if entry.kind == "logcat" else None
        if crash is None:
            crash = self._new(entry)
        self._by_writer[writer] = crash
        crash.pid, crash.process, crash.thread, crash.abi = pid, match["process"], match["thread"], self._abi
        self._keep(crash, entry)

    def _signal(self, match: re.Match[str], entry: Entry) -> None:
        crash = self._open(entry)
        if crash is None or crash.frames or (crash.signal not in (None, match["signal"])):
            crash = self._new(entry)
            crash.abi = self._abi
        crash.signal, crash.code, crash.address = match["signal"], match["name"], match["addr"]
        self._keep(crash, entry)

    def _told(self, entry: Entry, what: str, text: str) -> None:
        crash = self._open(entry)
        if crash is None:
            return
        if what == "abort":
            crash.abort = text
        elif len(crash.causes) < 4:
            crash.causes.append(text)
        self._keep(crash, entry)

    def _frame(self, match: re.Match[str], entry: Entry) -> None:
        groups = match.groupdict()
        crash = self._open(entry)
        if crash is None:
            if not groups.get("path") and match.re is not _NAMED:
                return
            # A log that was cut or filtered has the stack without its head: libc's line before it tells of the same.
            crash = self._without_stack(entry) or self._new(entry)
            self._by_writer[entry.pid if entry.kind == "logcat" else None] = crash
        number = int(match["number"])
        # Stacks of the other threads follow; the first one is the one that died.
        if len(crash.frames) >= _MOST_FRAMES or (crash.frames and number <= crash.frames[-1].number):
            return
        frame = Frame(
            number, groups.get("path") or "", groups.get("function"), groups.get("build_id"), groups.get("pc")
        )
        crash.frames.append(frame)
        if len(crash.frames) <= 1 or (frame.owner != "unknown" and crash.top is frame):
            self._keep(crash, entry)

    def _without_stack(self, entry: Entry) -> Crash | None:
        """Return the last crash of this source, if its stack has not come yet."""
        last = self.crashes[-1] if self.crashes else None
        return last if last is not None and last.source == entry.source and not last.frames else None

    @staticmethod
    def _keep(crash: Crash, entry: Entry) -> None:
        if len(crash.lines) < 8:
            crash.lines.append(entry.evidence[0])

    def name_frames(self, name: Callable[[Frame], str | None]) -> None:
        """Give frames without a function the one that ``name`` tells, e.g. of unstripped files; show them."""
        for crash in self.crashes:
            for place, frame in enumerate(crash.frames):
                function = name(frame) if frame.function is None else None
                if function is not None:
                    crash.frames[place] = replace(frame, function=function)
                    number = f"#{frame.number:02} "
                    line = next((one.line for one in crash.lines if number in one.text), crash.lines[0].line)
                    shown = f"{number}{frame.path.rsplit('/', 1)[-1]} {function} (by its unstripped file)"
                    crash.lines.append(Evidence(crash.source, line, shown))

    def entries(self) -> list[Entry]:
        """Return each crash as one line for rules."""
        return [
            Entry(crash.sentence(), "crash", tuple(crash.lines), pid=crash.pid)
            for crash in self.crashes
            if crash.lines and (crash.signal or crash.frames)
        ]
