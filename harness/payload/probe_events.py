"""What the probe prints, as values. Pure: bytes in, dataclasses out; see ``device_bins/probe`` for who writes them.

Strings of the probe are bytes in disguise: every byte above 0x7e is written as ``\\u00XX``, so that nothing is lost.
Output comes back as bytes; names and paths are decoded as UTF-8, odd bytes kept as surrogate escapes
(:func:`os.fsencode` undoes it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from harness.payload.probe_fields import Fields, Numbers, load_line
from harness.phone.probed import Denied


@dataclass(frozen=True)
class Stamp:
    """When: order of the event, CLOCK_MONOTONIC and CLOCK_BOOTTIME in ns. Their gap grows while the phone sleeps."""

    seq: int
    mono_ns: int
    boot_ns: int


@dataclass(frozen=True)
class Start(Stamp):
    """The run begins. Stamped just before the fork; ``pid`` is ``None`` when not even that worked."""

    pid: int | None
    probe_pid: int
    boot_id: str | None
    argv: tuple[str, ...]
    interval_ms: int
    deadline_ms: int | None
    silence_ms: int | None = None


@dataclass(frozen=True)
class SensorZone:
    """A thermal zone; ``type`` is empty when it may not be read."""

    zone: int
    type: str


@dataclass(frozen=True)
class Sensors(Stamp):
    """The order of the arrays in samples, and what may not be read.

    Attributes:
        gpu_counter: what ``gpu_bytes`` of the samples counts, see ``device_bins/probe/gpu.h``: ``kgsl`` (Adreno),
            ``mali_kprcs``, ``mali_table``, ``drm_fdinfo`` or ``dmabuf_rss``; ``None``: no counter is readable, and
            those that were refused stand in ``denied``.
    """

    cpus: tuple[int, ...]
    zones: tuple[SensorZone, ...]
    denied: tuple[Denied, ...]
    gpu_counter: str | None = None


@dataclass(frozen=True)
class Output(Stamp):
    """A chunk that the command wrote to file descriptor ``fd`` (1 or 2), stamped when it was read."""

    fd: int
    data: bytes


@dataclass(frozen=True)
class Sample(Stamp):
    """Memory, clocks and heat at one moment.

    Memory, threads and CPU times are sums over the command and its descendants (``processes`` of them live); pages
    that two share count twice, and ``hwm_bytes`` of several processes is an upper bound. ``None``: not readable, or,
    in the last sample, the process is gone already. Zones, ``gpu_bytes`` and ``threads_allowed`` are read once a
    second; in between their values are ``None``. ``milli_c`` holds the raw numbers of the zones, whatever their unit.

    Attributes:
        cpu: the core on which the command's first thread ran last; like the next two told only of a run with ``cpus``,
            and not of a dead process.
        cpus_allowed: the list of cores that this thread may use.
        gpu_bytes: GPU memory of all processes by the counter that :class:`Sensors` names. A part of it may be mapped,
            and is in ``rss_bytes`` too.
        threads_allowed: the different lists of cores that the threads of all processes may use.
    """

    processes: int
    rss_bytes: int | None
    anon_bytes: int | None
    swap_bytes: int | None
    hwm_bytes: int | None
    threads: int | None
    utime_ms: int
    stime_ms: int
    mem_available_bytes: int | None
    cur_khz: Numbers
    cap_khz: Numbers
    milli_c: Numbers
    cpu: int | None = None
    cpus_allowed: str | None = None
    gpu_bytes: int | None = None
    threads_allowed: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Trip:
    """The thermal zone that reached its limit."""

    zone: int
    type: str
    milli_c: int


@dataclass(frozen=True)
class End(Stamp):
    """How it ended.

    Attributes:
        why: ``exit``, ``deadline``, ``hangup`` (nobody reads the probe's stdout), ``stopped`` (the probe got a signal),
            ``silence`` (no output for too long), ``trip`` (a zone was too hot, see ``trip``), ``lease_lost`` (the
            phone is somebody else's now) or ``spawn_failed`` (see ``errno``).
        maxrss_bytes: the kernel's own peak of the command and of descendants that were waited for.
        survivors: descendants that SIGKILL did not end in time; ``None`` when the kernel cannot tell.
        probe_cpu_ms: CPU time that the probe itself took.
        file_error: why ``events.jsonl`` on the phone lacks lines; the gaps show in ``seq``.
        trip: the zone that ended the run and its reading, in the zone's own unit.
    """

    exit_code: int | None
    signal: int | None
    why: str
    errno: str | None
    maxrss_bytes: int | None
    utime_ms: int | None
    stime_ms: int | None
    minflt: int | None
    majflt: int | None
    survivors: int | None
    probe_cpu_ms: int
    samples: int
    file_error: str | None
    trip: Trip | None = None


Event = Start | Sensors | Output | Sample | End


def _stamp(fields: Fields) -> dict[str, int]:
    return {name: fields.integer(name) for name in ("seq", "mono_ns", "boot_ns")}


def _start(fields: Fields) -> Start:
    return Start(
        **_stamp(fields),
        pid=fields.maybe_integer("pid"),
        probe_pid=fields.integer("probe_pid"),
        boot_id=fields.maybe_text("boot_id"),
        argv=fields.texts("argv"),
        interval_ms=fields.integer("interval_ms"),
        deadline_ms=fields.maybe_integer("deadline_ms"),
        silence_ms=fields.maybe_integer("silence_ms") if "silence_ms" in fields else None,
    )


def read_denied(fields: Fields) -> tuple[Denied, ...]:
    """Read the list of what could not be read."""
    return tuple(Denied(entry.text("path"), entry.text("errno")) for entry in fields.objects("denied"))


def _sensors(fields: Fields) -> Sensors:
    zones = tuple(SensorZone(zone.integer("zone"), zone.maybe_text("type") or "") for zone in fields.objects("zones"))
    return Sensors(
        **_stamp(fields),
        cpus=fields.whole("cpus"),
        zones=zones,
        denied=read_denied(fields),
        gpu_counter=fields.maybe_text("gpu_counter") if "gpu_counter" in fields else None,
    )


def _output(fields: Fields) -> Output:
    fd = fields.integer("fd")
    if fd not in (1, 2):
        raise ValueError(f"'fd' of a probe event is neither 1 nor 2: {fd}")
    return Output(**_stamp(fields), fd=fd, data=fields.raw("data"))


def _sample(fields: Fields) -> Sample:
    return Sample(
        **_stamp(fields),
        processes=fields.integer("processes"),
        rss_bytes=fields.maybe_integer("rss_bytes"),
        anon_bytes=fields.maybe_integer("anon_bytes"),
        swap_bytes=fields.maybe_integer("swap_bytes"),
        hwm_bytes=fields.maybe_integer("hwm_bytes"),
        threads=fields.maybe_integer("threads"),
        utime_ms=fields.integer("utime_ms"),
        stime_ms=fields.integer("stime_ms"),
        mem_available_bytes=fields.maybe_integer("mem_available_bytes"),
        cur_khz=fields.numbers("cur_khz"),
        cap_khz=fields.numbers("cap_khz"),
        milli_c=fields.numbers("milli_c"),
        cpu=fields.maybe_integer("cpu") if "cpu" in fields else None,
        cpus_allowed=fields.maybe_text("cpus_allowed") if "cpus_allowed" in fields else None,
        gpu_bytes=fields.maybe_integer("gpu_bytes") if "gpu_bytes" in fields else None,
        threads_allowed=_threads_allowed(fields),
    )


def _threads_allowed(fields: Fields) -> tuple[str, ...] | None:
    if "threads_allowed" not in fields or fields.is_null("threads_allowed"):
        return None
    return fields.texts("threads_allowed")


def _end(fields: Fields) -> End:
    return End(
        **_stamp(fields),
        exit_code=fields.maybe_integer("exit_code"),
        signal=fields.maybe_integer("signal"),
        why=fields.text("why"),
        errno=fields.maybe_text("errno"),
        maxrss_bytes=fields.maybe_integer("maxrss_bytes"),
        utime_ms=fields.maybe_integer("utime_ms"),
        stime_ms=fields.maybe_integer("stime_ms"),
        minflt=fields.maybe_integer("minflt"),
        majflt=fields.maybe_integer("majflt"),
        survivors=fields.maybe_integer("survivors"),
        probe_cpu_ms=fields.integer("probe_cpu_ms"),
        samples=fields.integer("samples"),
        file_error=fields.maybe_text("file_error"),
        trip=_trip(fields),
    )


def _trip(fields: Fields) -> Trip | None:
    if "trip" not in fields or fields.is_null("trip"):
        return None
    trip = fields.inner("trip")
    return Trip(trip.integer("zone"), trip.text("type"), trip.integer("milli_c"))


_KINDS: Mapping[str, Callable[[Fields], Event]] = {
    "start": _start,
    "sensors": _sensors,
    "out": _output,
    "sample": _sample,
    "end": _end,
}


def parse_event(line: bytes) -> Event:
    """Read one event line of ``probe run``.

    Raises:
        ValueError: it is no event; the sentence says why.
    """
    fields = load_line(line, "a probe event")
    kind = fields.text("ev")
    if kind not in _KINDS:
        raise ValueError(f"a probe event of unknown kind {kind[:40]!r}")
    return _KINDS[kind](fields)


class RunLog:
    """Everything that one run told so far.

    Attributes:
        start: ``None`` until it came.
        sensors: ``None`` until it came.
        end: ``None`` while the run goes on, and for ever when the probe was cut off.
        samples: in order.
        outputs: chunks in order, with their stamps.
        torn: the bytes of an unfinished last line.
        size: how many bytes of whole lines were read, which is where the next one begins.
    """

    def __init__(self) -> None:
        self.start: Start | None = None
        self.sensors: Sensors | None = None
        self.end: End | None = None
        self.samples: list[Sample] = []
        self.outputs: list[Output] = []
        self.torn = b""
        self.size = 0

    @classmethod
    def read(cls, content: bytes) -> RunLog:
        """Read a whole ``events.jsonl``; a torn last line is kept in ``torn`` and not read.

        Raises:
            ValueError: a whole line is no event.
        """
        log = cls()
        *lines, torn = content.split(b"\n")
        for line in lines:
            log.feed(line + b"\n")
        log.torn = torn
        return log

    def feed(self, line: bytes) -> Event | None:
        """Take one line with its end; a line without one is torn and gives ``None``.

        Raises:
            ValueError: the line is no event.
        """
        if not line.endswith(b"\n"):
            self.torn = line
            return None
        event = parse_event(line)
        self.add(event)
        self.size += len(line)
        return event

    def add(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, Start):
            self.start = event
        elif isinstance(event, Sensors):
            self.sensors = event
        elif isinstance(event, Output):
            self.outputs.append(event)
        elif isinstance(event, Sample):
            self.samples.append(event)
        else:
            self.end = event

    @property
    def stdout(self) -> bytes:
        """All that the command wrote to stdout."""
        return b"".join(output.data for output in self.outputs if output.fd == 1)

    @property
    def stderr(self) -> bytes:
        """All that the command wrote to stderr."""
        return b"".join(output.data for output in self.outputs if output.fd == 2)

    def stamped_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of stdout, each with the time at which its end was read, CLOCK_MONOTONIC in ns."""
        pending = b""
        for output in self.outputs:
            if output.fd == 1:
                *lines, pending = (pending + output.data).split(b"\n")
                for line in lines:
                    yield output.mono_ns, line

    @property
    def min_available_bytes(self) -> int | None:
        """The least memory that was available in any sample; ``None`` when the phone does not tell."""
        known = [sample.mem_available_bytes for sample in self.samples if sample.mem_available_bytes is not None]
        return min(known, default=None)

    def peak(self, name: str) -> int | None:
        """Return the highest value of a field of :class:`Sample`, e.g. ``peak("anon_bytes")``."""
        known = [value for sample in self.samples if (value := getattr(sample, name)) is not None]
        return max(known, default=None)

    def max_milli_c(self) -> dict[str, int]:
        """Return the highest raw reading per zone type; a type that was never readable is absent."""
        highest: dict[str, int] = {}
        zones = self.sensors.zones if self.sensors is not None else ()
        for sample in self.samples:
            for zone, value in zip(zones, sample.milli_c, strict=False):
                if value is not None:
                    highest[zone.type] = max(value, highest.get(zone.type, value))
        return highest
