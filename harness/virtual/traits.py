"""Tables of a phone's description that say how it behaves: heat, what its thermal service tells, battery, GPU."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from harness.virtual.parts import Part, Text, Token

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Heat(Part):
    """Parameters of :mod:`harness.virtual.heat`, where the equations are.

    The defaults are gentle on purpose: two busy cores of a PC for a minute warm the chip by some degrees and throttle
    nothing, so that a short plan on an idle phone starts cool and stays cool.
    """

    watts_per_core: Positive = 2.0
    chip_c_per_watt: Positive = 6.0
    chip_tau_s: Positive = 120.0
    skin_c_per_watt: Positive = 2.5
    skin_tau_s: Positive = 400.0
    idle_c: Positive = 32.0
    """The chip's temperature when nothing runs; its rise counts from here."""
    trip_c: Positive = 52.0
    hysteresis_c: Positive = 3.0
    step_s: Positive = 1.0
    """Time between two steps of the governor."""
    caps: tuple[Annotated[float, Field(gt=0.05, le=1)], ...] = Field(
        default=(1.0, 0.9, 0.8, 0.7, 0.6), min_length=1, max_length=32, strict=False
    )
    """Share of the highest clock that is allowed at each step, the first one 1."""

    @model_validator(mode="after")
    def _caps_fall(self) -> Heat:
        if self.caps[0] != 1.0 or list(self.caps) != sorted(self.caps, reverse=True):
            raise ValueError("caps must start with 1 and fall")
        if self.trip_c - self.hysteresis_c <= self.idle_c:
            raise ValueError("trip_c less hysteresis_c must lie above idle_c, or the phone never cools down")
        return self


class Sensor(Part):
    """One sensor as the thermal service names it. Its value comes from a zone, or is ``value`` for ever."""

    name: Token
    type: Annotated[int, Field(ge=-1, le=30)]
    """Android's ``mType``: 0 CPU, 1 GPU, 2 battery, 3 skin, 4 USB, 5 power amplifier, 6 V, 7 mA, 8 %, 9 NPU, …"""
    zone: Token | None = None
    value: float | None = None
    limits_c: tuple[float, ...] = Field(default=(), max_length=7, strict=False)
    """From which temperature each of the seven states (none, light, … shutdown) holds; ``nan`` for none."""

    @model_validator(mode="after")
    def _one_source(self) -> Sensor:
        if (self.zone is None) == (self.value is None):
            raise ValueError("a sensor has either a zone or a value")
        if self.limits_c and len(self.limits_c) != 7:
            raise ValueError("limits_c has seven values, nan where there is none")
        return self


class Thermal(Part):
    """``dumpsys thermalservice``, which exists from Android 10.

    ``hal`` names the version of the vendor's part; ``none`` is a service that never gets ready. ``sections`` says
    whether cooling devices and thresholds are listed, and ``thresholds`` in which of the two syntaxes.
    """

    hal: Literal["none", "1.0", "1.1", "2.0", "aidl"] = "2.0"
    reports_status: bool = True
    """Many phones never leave status 0, however hot they are."""
    lists_cooling: bool = True
    thresholds: Literal["aidl", "hidl", "empty", "absent"] = "aidl"
    cooling_name: Token = "thermal-cpufreq-"
    """Cooling devices are called this and a number."""
    cooling_by_core: bool = False
    """Number by first core, as Qualcomm does, else by cluster."""
    sensors: tuple[Sensor, ...] = Field(default=(), strict=False)


class Battery(Part):
    """The battery and how it empties; the equations are in :mod:`harness.virtual.battery`."""

    capacity_mah: Annotated[int, Field(ge=500, le=20_000)] = 5000
    level: Annotated[int, Field(ge=1, le=100)] = 84
    plugged: Literal["none", "ac", "usb", "wireless"] = "usb"
    charge_ma: Positive = 500.0
    idle_ma: Positive = 60.0
    ma_per_core: Positive = 450.0
    technology: Literal["Li-ion", "Li-poly"] = "Li-ion"
    idle_decicelsius: Annotated[int, Field(ge=100, le=359)] = 284
    layout: Literal["aosp", "samsung", "plain"] = "aosp"
    """Which lines ``dumpsys battery`` has: Samsung adds a log, ``plain`` lacks some."""


class Gpu(Part):
    """What services tell of GPU and screen. ``kgsl_model`` adds the nodes of Qualcomm's driver."""

    vendor: Text
    renderer: Text
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9 ._:/,+()@-]+$", max_length=120)] = "OpenGL ES 3.2"
    kgsl_model: Token | None = None
    clocks_mhz: tuple[Annotated[int, Field(ge=50, le=3000)], ...] = Field(default=(), strict=False)
    snapshot: bool = True
    """Whether the kernel tells memory by process (from Android 12)."""
    width: Annotated[int, Field(ge=240, le=8192)] = 1080
    height: Annotated[int, Field(ge=240, le=8192)] = 2400
    density: Annotated[int, Field(ge=120, le=960)] = 420
    dozes: bool = False
    """Whether a screen that is off shows the time, so that the phone says ``Dozing`` and not ``Asleep``."""
