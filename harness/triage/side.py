"""One side of a comparison: what is known of a phone or of a cell, flat, by the names of ``differences.toml``. Pure.

Facts come from a phone, from ``run.json`` or from a file of somebody else's, so their types are not relied upon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.core.reasons import Verdict
from harness.store.schema import CellRecord

Value = bool | int | float | str | tuple[str, ...]

FEATURE = "cpu_feature."
ENGINE = "config.engine."
NO_SUCH_SETTING = "its backend has no such setting"
NO_CELL = "a phone alone has no cell: name RUN#CELL"

# Facts that are compared as they are; what only says which phone it is (ids, names, fingerprint) is not among them.
_PLAIN = (
    "manufacturer", "model", "soc", "soc_vendor", "soc_name", "platform", "tier", "android_release", "sdk", "abis",
    "security_patch", "build_type", "kernel", "page_size", "cores", "cpu_max_khz", "llc_bytes", "gpu", "driver", "gles",
    "updatable_driver", "opencl", "vulkan", "opencl_public", "python_mnn", "ram_bytes", "available_bytes",
    "storage_total_bytes", "storage_free_bytes",
)  # fmt: skip
_NESTED = {
    "battery": ("level_pct", "temp_c", "plugged", "status", "health", "overridden"),
    "thermal": ("status", "overridden"),
}
# Where ``mnn-farm devices --json`` has its own names.
_SHOWN = {"free_bytes": "storage_free_bytes", "battery_pct": "battery.level_pct", "battery_c": "battery.temp_c"}
# No phone has so much of anything.
_NO_AMOUNT = 1 << 63
_MISSING: Mapping[str, Value] = {FEATURE: False, ENGINE: "the engine's default"}


@dataclass(frozen=True)
class Side:
    """A phone, or a cell on a phone.

    Attributes:
        name: for people.
        values: what is known. ``""`` is known to be none.
        unknown: what is not known, with the reason.
        missing: why a field that is in neither is not known.
        complete: prefixes of names that are told completely: a CPU feature that is not listed is not there.
        reason: code of the reason why the cell is not ok, ``None`` for an ok cell or a phone.
        outcomes: how the cell ended and what it measured.
    """

    name: str
    values: Mapping[str, Value]
    unknown: Mapping[str, str] = field(default_factory=dict)
    missing: str = "the phone does not tell"
    complete: frozenset[str] = frozenset()
    reason: str | None = None
    outcomes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def fields(self) -> set[str]:
        """Return every name that this side says something of."""
        return {*self.values, *self.unknown}

    def told(self, name: str) -> Value | None:
        """Return what is known of ``name``, ``None`` if nothing is."""
        if name in self.values:
            return self.values[name]
        return next((_MISSING[prefix] for prefix in self.complete if name.startswith(prefix)), None)

    def why(self, name: str) -> str:
        """Return why ``name`` is not known here."""
        if name in self.unknown:
            return self.unknown[name]
        if name not in _CELL and not name.startswith("config."):
            return self.missing
        return NO_SUCH_SETTING if ENGINE in self.complete else NO_CELL


def of_facts(name: str, facts: Mapping[str, Any], nulls: Mapping[str, Any] | None = None) -> Side:
    """Return a phone's side.

    Args:
        name: of the phone.
        facts: as ``run.json`` holds them, or a phone of ``mnn-farm devices --json``.
        nulls: further reasons of facts that are unknown.
    """
    whys = {key: why for key, why in (*_table(nulls).items(), *_table(facts.get("nulls")).items()) if why}
    for group in _NESTED:
        inside = _table(_table(facts.get(group)).get("nulls"))
        whys.update({f"{group}.{key}": why for key, why in inside.items() if why})
    whys.update({name: whys[key] for key, name in _SHOWN.items() if key in whys})
    values, unknown = dict[str, Value](), dict[str, str]()
    for key, given in _flat(facts):
        value = _plain(given)
        if value is None or (value == () and key == "abis"):
            unknown.setdefault(key, str(whys.get(key, whys.get(key.partition(".")[0], "the phone does not tell"))))
        else:
            values[key] = value
            unknown.pop(key, None)
    features = _plain(facts.get("cpu_features"))
    told = isinstance(features, tuple) and bool(features)
    if isinstance(features, tuple) and told:
        values.update({f"{FEATURE}{feature}": True for feature in features})
    elif "cpu_features" in facts:
        unknown["cpu_features"] = str(whys.get("instructions", "the kernel tells no features"))
    return Side(name, values, unknown, complete=frozenset({FEATURE}) if told else frozenset())


def of_record(record: CellRecord, facts: Mapping[str, Any], nulls: Mapping[str, Any] | None = None) -> Side:
    """Return a cell's side: its phone's ``facts``, what ran, what was asked of it, and how it ended."""
    phone = of_facts(record.phone.name, {"driver": record.phone.driver, **facts}, {**record.nulls, **_table(nulls)})
    values, unknown = dict(phone.values), dict(phone.unknown)
    for key, given in _of_cell(record):
        value = _plain(given)
        if value is not None:
            values[key] = value
        else:
            section, _, last = key.replace("cell.", "thermal.").rpartition(".")
            unknown[key] = record.nulls.get(last, record.nulls.get(section, "the record does not tell"))
    outcomes = {key: value for key, given in _outcomes(record) if (value := _plain(given)) is not None}
    return Side(
        f"{record.phone.name} #{record.cell_id[:6]}", values, unknown,
        complete=phone.complete | {ENGINE}, reason=None if record.verdict is Verdict.OK else record.reason,
        outcomes=outcomes,
    )  # fmt: skip


def _flat(facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in _PLAIN:
        if key in facts:
            yield key, facts[key]
    for key, shown in _SHOWN.items():
        if key in facts:
            yield shown, facts[key]
    for group, keys in _NESTED.items():
        if group in facts:
            inside = _table(facts[group])
            yield from ((f"{group}.{key}", inside.get(key)) for key in keys)


# What a record tells of a cell besides ``config``; a phone alone has none of it.
_CELL = (
    "context", "harness_version", "model.name", "model.hash", "model.weight_bytes", "model.quant_bits", "bundle.name",
    "bundle.hash", "bundle.engine", "bundle.engine_version", "bundle.runner", "cell.start_c", "cell.status_max",
    "cell.clock_ratio_min", "cell.throttled", "cell.plugged",
)  # fmt: skip


def _of_cell(record: CellRecord) -> Iterator[tuple[str, Any]]:
    yield "context", record.phone.context
    yield "harness_version", record.harness_version
    for section, told in (("model", record.model), ("bundle", record.bundle)):
        yield from ((name, getattr(told, name.partition(".")[2])) for name in _CELL if name.startswith(f"{section}."))
    for name in (name for name in _CELL if name.startswith("cell.")):
        yield name, getattr(record.thermal, name.partition(".")[2], None)
    config = record.config.model_dump()
    yield from ((f"{ENGINE}{key}", value) for key, value in config.pop("engine").items())
    if config["backend"] != "cpu":
        # A GPU backend takes the number for its mode: bits that choose its tuning and its memory.
        config["gpu_mode"] = config.pop("threads")
    # What is not set is known not to be set.
    yield from ((f"config.{key}", "" if value is None else value) for key, value in config.items())


def _outcomes(record: CellRecord) -> Iterator[tuple[str, Any]]:
    yield "verdict", record.verdict.value
    yield "reason", record.reason
    yield "backend", record.backend.actual if record.backend else None
    metrics = record.metrics
    if metrics is not None:
        yield "decode_tps", metrics.decode_tps.median if metrics.decode_tps else None
        yield "prefill_tps", metrics.prefill_tps.median if metrics.prefill_tps else None
        yield "ttft_ms", metrics.ttft_ms.p50 if metrics.ttft_ms else None
        yield "load_ms", metrics.load_ms
        yield "peak_rss_bytes", metrics.peak_rss_bytes
        yield "min_available_bytes", metrics.min_available_bytes
    if record.output is not None:
        yield "golden", record.output.golden
        yield "match", record.output.match


def _plain(value: Any) -> Value | None:
    if isinstance(value, int | float) and not abs(value) < _NO_AMOUNT:  # nor is what is no number at all
        return None
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(str(one) for one in value)
    return None


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
