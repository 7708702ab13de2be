"""What a run was made of: command, versions, models, device binaries, plan. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence

from harness.report.text import distinct, mebibytes
from harness.store.head import RunInfo
from harness.store.schema import CellRecord


def engines(records: Iterable[CellRecord]) -> list[str]:
    """Return the engines that ran, with version."""
    versions = [record.bundle for record in records if record.bundle.engine_version is not None]
    return distinct(f"{bundle.engine} {bundle.engine_version}" for bundle in versions) or ["engine version not known"]


def provenance(info: RunInfo, records: Sequence[CellRecord]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return what the run was made of: titled lists of names and values."""
    models = {
        model.hash: f"{model.name}, {mebibytes(model.weight_bytes)} of weights, "
        + (f"{model.quant_bits} bits" if model.quant_bits is not None else "bits not known")
        + (f", stored as {model.stored}" if model.stored else "")
        + (f", converted from {model.source}" if model.source else "")
        for model in {record.model.hash: record.model for record in records}.values()
    }
    bundles = {
        bundle.hash: f"{bundle.name}, {bundle.engine} {bundle.engine_version or '(version not known)'}, {bundle.runner}"
        for bundle in {record.bundle.hash: record.bundle for record in records}.values()
    }
    servers = {
        (record.adb.server, record.adb.version): record.adb for record in records if record.adb.server is not None
    }
    adb = [f"{server.server}, version {server.version}" for server in servers.values()]
    resumed = [(f"resumed {again.started}", shlex.join(again.command)) for again in info.resumptions]
    return [
        ("Command", [("", shlex.join(info.command)), *resumed]),
        ("Versions", [("mnn-farm", info.harness_version), *sorted(info.versions.items())]),
        ("Host", sorted(info.host.items())),
        ("Models", [(text, key) for key, text in models.items()]),
        ("Device binaries", [(text, key) for key, text in bundles.items()]),
        ("adb servers", [("", text) for text in adb]),
    ]


def plan_text(info: RunInfo) -> str:
    """Return the plan as it was resolved, as JSON."""
    return json.dumps(info.plan, ensure_ascii=False, indent=1, default=str)
