"""Is this phone slow? What others report for its chip, or what its own memory allows, beside what was measured.

A hint and never proof: no verdict rests on it. The nearest that is known counts: figures of the same chip, model size
and bits; else of chips with the same kind of biggest core (CPU only: such chips are of the same years, with the same
kind of memory); else the phone's own memory bandwidth, since decoding reads all weights for every token. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harness.core.reasons import Verdict
from harness.report.cells import Figure, value_at
from harness.report.expectation_table import Chip, Phase, Processor, Reference, chip_of, kin_of, own_references
from harness.report.text import number
from harness.store.schema import CellRecord

Says = Literal["as expected", "slower than", "faster than"]
Basis = Literal["same chip", "same kind of core", "own memory"]

# Below this share of the lowest figure reported a phone is called slow. Heat and other apps cost 35 to 45 % in
# published series (llm_rs2, 2026), engines differ by less: MNN and PocketPal by 4 to 18 % on the SM8850.
LOW_SHARE: Final = 0.6
# Above this share of the highest it is called fast: engines of one chip differ by up to 1.6 (MediaPipe and PocketPal
# with gemma-3-1b on the SM8550).
HIGH_SHARE: Final = 1.6
# Of another chip with the same biggest core: their other cores and their cooling differ besides.
_KIN_SHARE: Final = 1.5
# Of what the phone's cores read from memory a second. MNN reaches 88 % of what its own kernels read on the SM8750 (35
# tok/s of 1.07 GB, 42 GB/s: MNN #4378); the slowest CPU figure of the table, on the SM8550, reads half as much.
MEMORY_LOW_SHARE: Final = 0.35
# A GPU decodes at 0.7 times its CPU's speed at worst (SM8550, Qwen3-1.7B), and may read twice what the cores read.
GPU_LOW_SHARE: Final = 0.25
GPU_HIGH_SHARE: Final = 2.0
# Below this the memory is not what sets the pace.
_LEAST_WEIGHT_BYTES: Final = 256 << 20
# Scales and zero points of quantised weights: MNN's take a bit per weight (SmolLM2-135M: 80.4 MiB with 4 bits).
_SCALE_BITS: Final = 1.0
# What others ran with; fewer threads or a longer history are slower by design.
_LEAST_THREADS: Final = 4
_LONGEST_HISTORY: Final = 1024
_LEAST_PROMPT: Final = 64


@dataclass(frozen=True)
class Expectation:
    """A measured speed beside a wide range, in tok/s. ``sources`` say where the range comes from."""

    says: Says
    measured_tps: float
    low_tps: float
    high_tps: float
    basis: Basis
    sources: tuple[str, ...]

    @property
    def span(self) -> str:
        """The range for people, e.g. ``17.2 to 27.1 tok/s that others report``."""
        whose = {
            "same chip": "others report",
            "same kind of core": "others report for chips of its kind",
            "own memory": "its memory allows",
        }
        return f"{number(self.low_tps)} to {number(self.high_tps)} tok/s that {whose[self.basis]}"

    @property
    def words(self) -> str:
        """One clause for people, e.g. ``slower than the 17.2 to 27.1 tok/s that others report``."""
        return f"{self.says}: {self.span}" if self.says == "as expected" else f"{self.says} the {self.span}"


def expectation_of(record: CellRecord, *, phase: Phase = "decode") -> Expectation | None:
    """Return what the cell's speed is beside what is known, ``None`` where nothing is: :func:`why_none` says why."""
    found = _judged(record, phase)
    return found if isinstance(found, Expectation) else None


def why_none(record: CellRecord, *, phase: Phase = "decode") -> str:
    """Return why there is no expectation, ``""`` where there is one."""
    found = _judged(record, phase)
    return found if isinstance(found, str) else ""


def expectation_figure(record: CellRecord) -> Figure:
    """Return the hint to stand beside a decode speed: a few words, the range as tooltip; or a dash and why."""
    found = _judged(record, "decode")
    if isinstance(found, str):
        return Figure("—", why=found)
    return Figure("as expected" if found.says == "as expected" else found.words, title=_tooltip(found))


def _tooltip(found: Expectation) -> str:
    return f"{found.words}; a hint, no proof; {'; '.join(found.sources)}"


def _judged(record: CellRecord, phase: Phase) -> Expectation | str:
    tps = value_at(record, "metrics", f"{phase}_tps.median")
    if record.verdict is not Verdict.OK or tps is None:
        return "only what is ok is held against what others report"
    apart = _unlike_others(record, phase)
    if apart:
        return apart
    on: Processor = "cpu" if record.config.backend == "cpu" else "gpu"
    chip = None if record.phone.soc is None else chip_of(record.phone.soc)
    reported, basis = _reported(record, chip, on, phase)
    if reported:
        return _beside_reports(tps, reported, basis)
    if phase == "prefill":
        return "nobody's figures for this chip and a model of this size and bits are known"
    return _beside_memory(record, tps, on)


def _unlike_others(record: CellRecord, phase: Phase) -> str:
    """Return why a cell is not run as others run theirs, ``""`` when it is."""
    config = record.config
    if config.kind != "burst":
        return "others report short runs, not sustained ones"
    if config.backend == "cpu" and config.threads < _LEAST_THREADS:
        return f"others use {_LEAST_THREADS} threads or more"
    if config.affinity not in (None, "any", "big"):
        return "it was kept on chosen cores"
    if config.context_tokens > _LONGEST_HISTORY:
        return "others report short histories"
    if phase == "prefill" and config.prompt_tokens < _LEAST_PROMPT:
        return "others use longer prompts"
    return ""


def params_b(record: CellRecord) -> float | None:
    """Return the size of the model in 10^9 parameters, from its weights; ``None`` where its bits are not known."""
    bits = record.model.quant_bits
    if bits is None:
        return None
    return record.model.weight_bytes * 8 / (bits + (_SCALE_BITS if bits <= 8 else 0.0)) / 1e9


def _reported(
    record: CellRecord, chip: Chip | None, on: Processor, phase: Phase
) -> tuple[tuple[Reference, ...], Basis]:
    """Return the nearest rows: of the same chip, else for CPUs of chips with the same biggest core."""
    size, bits = params_b(record), record.model.quant_bits
    if chip is None or size is None or bits is None:
        return (), "same chip"
    table = own_references()
    same = _of_size(table.get((chip.model, on, bits, phase), ()), size)
    if same or on == "gpu" or chip.big_core is None:
        return same, "same chip"
    rows = [row for model in kin_of(chip) for row in table.get((model, on, bits, phase), ())]
    return _of_size(rows, size), "same kind of core"


def _of_size(rows: Sequence[Reference], size: float) -> tuple[Reference, ...]:
    return tuple(row for row in rows if row.params_b_low <= size <= row.params_b_high)


def _beside_reports(tps: float, rows: Sequence[Reference], basis: Basis) -> Expectation:
    low, high = min(row.low_tps for row in rows), max(row.high_tps for row in rows)
    if basis == "same kind of core":
        low, high = low / _KIN_SHARE, high * _KIN_SHARE
    says = _says(tps, low * LOW_SHARE, high * HIGH_SHARE)
    sources = dict.fromkeys(f"{row.engine}, {row.measured}: {row.note} ({row.source})" for row in rows)
    return Expectation(says, tps, low, high, basis, tuple(sources))


def _beside_memory(record: CellRecord, tps: float, on: Processor) -> Expectation | str:
    roof = _memory_roof_tps(record, tps)
    if isinstance(roof, str):
        return roof
    low, high = (MEMORY_LOW_SHARE, 1.0) if on == "cpu" else (GPU_LOW_SHARE, GPU_HIGH_SHARE)
    bandwidth = value_at(record, "metrics", "bandwidth_gb_per_s")
    share = f"{low * 100:.0f} to {high * 100:.0f} %"
    source = f"its cores read {number(bandwidth)} GB/s; {share} of that over the bytes of the weights"
    return Expectation(_says(tps, roof * low, roof * high), tps, roof * low, roof * high, "own memory", (source,))


def _memory_roof_tps(record: CellRecord, tps: float) -> float | str:
    """Return the decode speed at which the weights are read as fast as the memory was, or why that says nothing."""
    bandwidth = value_at(record, "metrics", "bandwidth_gb_per_s")
    if bandwidth is None or bandwidth <= 0:
        return "nobody's figures for this chip, model size and bits are known, nor the speed of the phone's memory"
    if record.model.weight_bytes < _LEAST_WEIGHT_BYTES:
        return "nobody's figures are known, and in so small a model the memory does not set the pace"
    ratio = value_at(record, "metrics", "roofline_ratio")
    if ratio is not None and ratio > 0:
        return float(tps / ratio)
    return "nobody's figures are known, and which weights a token reads is not known either"


def _says(tps: float, low: float, high: float) -> Says:
    return "slower than" if tps < low else "faster than" if tps > high else "as expected"
