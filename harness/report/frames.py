"""The records as one flat table. What is not ``ok`` has no figures in it: only ``refused_*`` says what was seen.

So nobody who sorts, averages or plots a column can take a refused number for a valid one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd

from harness.core.reasons import Verdict
from harness.report.besides import warning_codes
from harness.report.cells import value_at
from harness.report.tensors import accuracy_of
from harness.report.text import inert
from harness.store.runfolder import RunFolder, write_atomically
from harness.store.schema import CellRecord

_TEXT: Final = "string"
_COUNT: Final = "Int64"
_FIGURE: Final = "Float64"
_FLAG: Final = "boolean"


class Column(NamedTuple):
    """One column: its name, its pandas type, the record's section and path, and what it holds.

    The section ``accuracy`` is :func:`harness.report.tensors.accuracy_of`, of tensor cells.
    """

    name: str
    dtype: str
    section: str
    path: str
    says: str


# Which cell it was and what became of it: filled in every row.
IDENTITY: Final = (
    Column("run_id", _TEXT, "", "run_id", "run"),
    Column("cell_id", _TEXT, "", "cell_id", "what was measured, as a hash; the same in every run"),
    Column("attempt", _COUNT, "", "attempt", "counts from 1; this row is the last one"),
    Column("started", _TEXT, "", "started", "UTC"),
    Column("elapsed_s", _FIGURE, "", "elapsed_s", "how long the cell took, in seconds"),
    Column("verdict", _TEXT, "", "verdict", "ok, rejected, failed, unsupported or skipped"),
    Column("reason", _TEXT, "", "reason", "why it is not ok"),
    Column("fault", _TEXT, "", "fault", "product, infra, config or harness"),
    Column("detail", _TEXT, "", "detail", "the reason in this case"),
    Column("phone", _TEXT, "phone", "name", "name for people"),
    Column("phone_id", _TEXT, "phone", "id", "stays with the phone"),
    Column("serial", _TEXT, "phone", "serial", "not always unique"),
    Column("phone_model", _TEXT, "phone", "model", ""),
    Column("soc", _TEXT, "phone", "soc", ""),
    Column("tier", _TEXT, "phone", "tier", "high, mid or low"),
    Column("context", _TEXT, "phone", "context", "shell or app"),
    Column("driver", _TEXT, "phone", "driver", "GPU driver"),
    Column("model", _TEXT, "model", "name", ""),
    Column("model_hash", _TEXT, "model", "hash", "of every file in it"),
    Column("weight_bytes", _COUNT, "model", "weight_bytes", ""),
    Column("quant_bits", _COUNT, "model", "quant_bits", ""),
    Column("stored", _TEXT, "model", "stored", "how the weights are stored, of a model that came from ONNX"),
    Column("source", _TEXT, "model", "source", "hash of the model that it was converted from"),
    Column("bundle", _TEXT, "bundle", "name", "device binaries"),
    Column("bundle_hash", _TEXT, "bundle", "hash", ""),
    Column("engine", _TEXT, "bundle", "engine", ""),
    Column("engine_version", _TEXT, "bundle", "engine_version", ""),
    Column("runner", _TEXT, "bundle", "runner", ""),
    Column("kind", _TEXT, "config", "kind", "burst, sustained or tensor"),
    Column("backend_requested", _TEXT, "config", "backend", ""),
    Column("backend_actual", _TEXT, "backend", "actual", "what ran"),
    Column("backend_strength", _TEXT, "backend", "strength", "engine, log, inferred or none"),
    Column("threads", _COUNT, "config", "threads", ""),
    Column("precision", _TEXT, "config", "precision", ""),
    Column("memory", _TEXT, "config", "memory", "memory mode"),
    Column("affinity", _TEXT, "config", "affinity", ""),
    Column("engine_config", _TEXT, "config", "engine", "further engine keys, as JSON"),
    Column("prompt_tokens", _COUNT, "config", "prompt_tokens", ""),
    Column("generate_tokens", _COUNT, "config", "generate_tokens", ""),
    Column("context_tokens", _COUNT, "config", "context_tokens", ""),
    Column("warmups", _COUNT, "config", "warmups", ""),
    Column("repeats", _COUNT, "config", "repeats", ""),
    Column("golden", _TEXT, "output", "golden", "right answers of questions asked"),
    Column("golden_ci95_low", _FIGURE, "", "", "95 % interval of their share, lower end"),
    Column("golden_ci95_high", _FIGURE, "", "", "95 % interval of their share, upper end"),
    Column("golden_set", _TEXT, "output", "golden_set", "set of questions and its hash"),
    Column("output_match", _TEXT, "output", "match", "policy by which the text was compared"),
    Column("output_matched_tokens", _COUNT, "output", "matched_tokens", "the same as the reference's, from the start"),
    Column("warnings", _TEXT, "", "", "codes of what else happened in it, joined by semicolons"),
    Column("raw", _TEXT, "", "raw", "folder below the run folder"),
)

# What was measured: filled only where the verdict is ok.
MEASURED: Final = (
    Column("ttft_p50_ms", _FIGURE, "metrics", "ttft_ms.p50", "prompt submitted to first token"),
    Column("ttft_min_ms", _FIGURE, "metrics", "ttft_ms.min", ""),
    Column("ttft_max_ms", _FIGURE, "metrics", "ttft_ms.max", ""),
    Column("prefill_tps", _FIGURE, "metrics", "prefill_tps.median", "median, prompt tokens a second"),
    Column("prefill_mad_tps", _FIGURE, "metrics", "prefill_tps.mad", "median absolute deviation"),
    Column("decode_tps", _FIGURE, "metrics", "decode_tps.median", "median, generated tokens a second"),
    Column("decode_mad_tps", _FIGURE, "metrics", "decode_tps.mad", "median absolute deviation"),
    Column("decode_cv", _FIGURE, "metrics", "decode_tps.cv", "standard deviation over mean"),
    Column("decode_ci95_low_tps", _FIGURE, "", "", "95 % interval of the median, lower end"),
    Column("decode_ci95_high_tps", _FIGURE, "", "", "95 % interval of the median, upper end"),
    Column("decode_n", _COUNT, "metrics", "decode_tps.n", "timed generations"),
    Column("token_p50_ms", _FIGURE, "metrics", "token_ms.p50", "between tokens"),
    Column("token_p95_ms", _FIGURE, "metrics", "token_ms.p95", ""),
    Column("latency_p50_ms", _FIGURE, "metrics", "latency_ms.p50", "tensor cells: one inference, outputs copied back"),
    Column("latency_p90_ms", _FIGURE, "metrics", "latency_ms.p90", "from 20 inferences on"),
    Column("latency_p99_ms", _FIGURE, "metrics", "latency_ms.p99", "from 200 inferences on"),
    Column("latency_min_ms", _FIGURE, "metrics", "latency_ms.min", ""),
    Column("latency_max_ms", _FIGURE, "metrics", "latency_ms.max", ""),
    Column("latency_n", _COUNT, "metrics", "latency_ms.n", "timed inferences"),
    Column("cosine", _FIGURE, "accuracy", "cosine", "accuracy kept, the worst output's: cosine similarity, mean"),
    Column("cosine_min", _FIGURE, "accuracy", "cosine_min", "of the worst sample"),
    Column("same_positions", _FIGURE, "accuracy", "same_positions", "share of decisions as the reference's"),
    Column("same_top1", _FIGURE, "accuracy", "same_top1", "share of samples that decide the same everywhere"),
    Column("max_error", _FIGURE, "accuracy", "max_error", "largest absolute error"),
    Column("accuracy_samples", _COUNT, "accuracy", "samples", "inputs over which it was measured"),
    Column("accuracy_real", _FLAG, "accuracy", "real_inputs", "whether these were given, or random"),
    Column("accuracy_reference", _TEXT, "accuracy", "reference", "what the outputs were compared with"),
    Column("load_cold_ms", _FIGURE, "metrics", "load_cold_ms", ""),
    Column("tuning_ms", _FIGURE, "metrics", "tuning_ms", ""),
    Column("load_ms", _FIGURE, "metrics", "load_ms", ""),
    Column("peak_rss_bytes", _COUNT, "metrics", "peak_rss_bytes", ""),
    Column("peak_anon_bytes", _COUNT, "metrics", "peak_anon_bytes", ""),
    Column("peak_swap_bytes", _COUNT, "metrics", "peak_swap_bytes", ""),
    Column("peak_gpu_bytes", _COUNT, "metrics", "peak_gpu_bytes", ""),
    Column("min_available_bytes", _COUNT, "metrics", "min_available_bytes", "least free memory of the phone meanwhile"),
    Column("roofline_ratio", _FIGURE, "metrics", "roofline_ratio", "decode speed over what memory bandwidth allows"),
    Column("bandwidth_gb_per_s", _FIGURE, "metrics", "bandwidth_gb_per_s", "of reading the phone's memory, 10^9 bytes"),
    Column("baseline_rss_bytes", _COUNT, "metrics", "baseline_rss_bytes", "before the model was loaded"),
    Column("growth_bytes", _FIGURE, "metrics", "growth_bytes", "more in memory after each generation"),
    Column("reload_growth_bytes", _FIGURE, "metrics", "reload_growth_bytes", "more in memory after each load"),
    Column("gpu_counter", _TEXT, "metrics", "gpu_counter", "where peak_gpu_bytes was read"),
    Column("killed_apps", _COUNT, "metrics", "killed_apps", "apps that the phone killed for memory meanwhile"),
    Column("battery_drop_pct", _FIGURE, "metrics", "battery_drop_pct", ""),
    Column("start_c", _FIGURE, "thermal", "start_c", "temperature when the cell began"),
    Column("max_c", _FIGURE, "thermal", "max_c", ""),
    Column("zone", _TEXT, "thermal", "zone", "thermal zone of the two before"),
    Column("throttled", _FLAG, "thermal", "throttled", ""),
    Column("onset_s", _FIGURE, "thermal", "onset_s", "throttled from then on, s since the first timed prompt"),
    Column("burst_tps", _FIGURE, "thermal", "burst_tps", "decode speed of a sustained cell until it throttled"),
    Column("sustained_tps", _FIGURE, "thermal", "sustained_tps", "in its last quarter"),
    Column("sustained_ratio", _FIGURE, "thermal", "sustained_ratio", "sustained over burst speed"),
)

# What was seen in a cell that is not ok. Evidence, not a result.
REFUSED: Final = (
    Column("refused_ttft_p50_ms", _FIGURE, "metrics", "ttft_ms.p50", "not a result"),
    Column("refused_prefill_tps", _FIGURE, "metrics", "prefill_tps.median", "not a result"),
    Column("refused_decode_tps", _FIGURE, "metrics", "decode_tps.median", "not a result"),
    Column("refused_latency_p50_ms", _FIGURE, "metrics", "latency_ms.p50", "not a result"),
)

_OF_ACCURACY: Final = tuple(column for column in MEASURED if column.section == "accuracy")
_OF_RECORD: Final = tuple(column for column in MEASURED if column.path and column not in _OF_ACCURACY)

COLUMNS: Final = (*IDENTITY, *MEASURED, *REFUSED)


def cells_frame(records: Iterable[CellRecord]) -> pd.DataFrame:
    """Return one row per record with :data:`COLUMNS`; unknown or empty is ``<NA>``, text is as recorded."""
    frame = pd.DataFrame([_row(record) for record in records], columns=[column.name for column in COLUMNS])
    typed: pd.DataFrame = frame.astype({column.name: column.dtype for column in COLUMNS})
    return typed


def _row(record: CellRecord) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(column.name for column in COLUMNS)
    row |= {column.name: _plain(record, column) for column in IDENTITY if column.path}
    share = value_at(record, "output", "golden_ci95")
    if share is not None:
        row["golden_ci95_low"], row["golden_ci95_high"] = share
    row["warnings"] = ";".join(warning_codes(record)) or None
    if record.verdict is Verdict.OK:
        row |= {column.name: _plain(record, column) for column in _OF_RECORD}
        accuracy = accuracy_of(record)
        if accuracy is not None:
            row |= {column.name: getattr(accuracy, column.path) for column in _OF_ACCURACY}
        interval = value_at(record, "metrics", "decode_tps.ci95")
        if interval is not None:
            row["decode_ci95_low_tps"], row["decode_ci95_high_tps"] = interval
    else:
        row |= {column.name: _plain(record, column) for column in REFUSED}
    return row


def _plain(record: CellRecord, column: Column) -> Any:
    value = value_at(record, column.section, column.path) if column.section else getattr(record, column.path)
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True) if value else None
    value = getattr(value, "value", value)
    return None if value == "" else value


def write_csv(run_dir: Path | RunFolder, out: Path | None = None) -> Path:
    """Write ``results.csv`` (or ``out``): the last attempt of each cell. Text that a spreadsheet would run is quoted.

    Raises:
        ConfigError: ``run_dir`` is not a run folder.
    """
    folder = RunFolder.open(run_dir)
    folder.read_info()
    frame = cells_frame(folder.latest())
    for column in COLUMNS:
        if column.dtype == _TEXT:
            frame[column.name] = frame[column.name].map(inert, na_action="ignore")
    target = out or folder.path / "results.csv"
    write_atomically(target, frame.to_csv(index=False, lineterminator="\n").encode())
    return target
