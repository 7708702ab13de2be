from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.store.head import FleetMember
from harness.store.schema import CellRecord, PhoneInfo


def _phone(phone_id: str, model: str | None = "Toy 3", soc: str | None = "TS900") -> dict[str, Any]:
    return {
        "id": phone_id, "serial": f"S-{phone_id}", "name": f"toy-{phone_id}", "model": model, "soc": soc, "tier": "mid",
        "fingerprint": "f", "boot_id": "b", "context": "shell", "driver": None,
    }  # fmt: skip


def _record(cell_id: str, phone_id: str, *, final: bool = True, started: int = 0, **over: Any) -> CellRecord:
    """A record of a cell that never ran: because the bundle cannot (which is final), or somebody had the phone."""
    verdict, reason, fault = ("unsupported", "backend_not_built", "product") if final else ("skipped", "busy", "infra")
    sections = dict.fromkeys(("backend", "metrics", "thermal", "output", "raw"))
    return CellRecord.model_validate(
        {
            "run_id": "run-1",
            "cell_id": cell_id,
            "attempt": 1,
            "started": f"2026-01-01T00:00:{started:02}Z",
            "elapsed_s": 0.5,
            "harness_version": "0",
            "adb": {"server": "127.0.0.1:6000", "version": 41},
            "phone": _phone(phone_id),
            "model": {"name": "toy", "hash": "m", "weight_bytes": 7, "quant_bits": 4},
            "bundle": {"name": "b", "hash": "b", "engine": "MNN", "engine_version": "3.6.1", "runner": "farm_runner"},
            "config": {
                "kind": "burst", "backend": "cpu", "threads": 4, "precision": "low", "memory": "low", "affinity": None,
                "engine": {}, "prompt_hash": "h", "sampler": "greedy", "prompt_tokens": 8, "generate_tokens": 32,
                "context_tokens": 0, "warmups": 1, "repeats": 5,
            },
            "verdict": verdict, "reason": reason, "fault": fault, **sections,
            "nulls": {"driver": "not read", **dict.fromkeys(sections, "it never ran")},
            **over,
        }
    )  # fmt: skip


@pytest.fixture
def record() -> Callable[..., CellRecord]:
    return _record


@pytest.fixture
def member() -> Callable[..., FleetMember]:
    def make(phone_id: str, model: str | None = "Toy 3", soc: str | None = "TS900") -> FleetMember:
        phone = PhoneInfo.model_validate(_phone(phone_id, model, soc))
        return FleetMember(phone=phone, provider="adb", facts={}, nulls={})

    return make
