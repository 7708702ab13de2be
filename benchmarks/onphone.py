"""Running the synthetic runner on a phone, under the probe."""

from __future__ import annotations

from collections.abc import Sequence

from harness.bench.phone import ConnectedPhone
from harness.bench.target import target_of
from harness.core.deadline import Deadline
from harness.core.resources import data_root
from harness.payload.bundle import read_bundle
from harness.payload.probe import RunSpec
from harness.payload.probe_events import RunLog
from harness.payload.store import ensure_on_phone

RUN_S = 120.0


def run_synthetic(phone: ConnectedPhone, orders: Sequence[str], *, tokens: int) -> RunLog:
    """Run one generation of ``tokens`` tokens after the first, as ordered (``KEY=VALUE``), and return what was seen."""
    payload = read_bundle(data_root() / "device_bins" / "runner" / "synthetic").payload(target_of(phone.facts))
    stored = ensure_on_phone(phone.transport, phone.probe, payload, kind="bundles", label="the synthetic runner")
    work = f"{phone.transport.base_dir}/work/benchmark"
    argv = [f"{stored.path}/{payload.files[0].path}", "--model", "none", "--warmups", "0", "--repeats", "1"]
    argv += ["--prompt-tokens", "1", "--generate-tokens", str(tokens + 1)]
    for order in orders:
        argv += ["--synthetic", order]
    deadline = Deadline(RUN_S, "a benchmark", phone.name)
    phone.transport.shell(["sh", "-c", 'rm -rf "$1" && mkdir -p "$1"', "sh", work], deadline=deadline)
    return phone.probe.run(RunSpec(argv=tuple(argv), work_dir=work, deadline_s=RUN_S))
