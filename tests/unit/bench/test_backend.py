from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from harness.bench.backend import backend_proof
from harness.bench.validity import judge
from harness.core.reasons import Reason

COMPILED = b"Update cache to tmp/mnn_cachefile.bin, size = 734003\n"


def test_the_proof_names_what_was_asked_and_what_ran(make: ModuleType) -> None:
    proof = backend_proof(make.evidence())
    assert proof is not None
    assert (proof.requested, proof.actual, proof.strength, proof.proof) == (
        "cpu",
        "cpu",
        "engine",
        "a session runs on cpu",
    )
    assert backend_proof(make.evidence(b"")) is None


def test_a_line_of_the_engine_is_a_better_proof_than_the_runners_word(make: ModuleType) -> None:
    log = b"Can't Find type=7 backend, use 3 instead\nCan't Find type=3 backend, use 0 instead\n"
    proof = backend_proof(make.evidence(backend="opencl", stderr=log))
    assert proof is not None
    assert (proof.requested, proof.actual, proof.strength) == ("opencl", "cpu", "log")
    assert proof.proof == "Can't Find type=3 backend, use 0 instead"


def unsure(told: list[dict[str, Any]]) -> None:
    """A runner that knows only what it asked for."""
    told[1].update(backend_actual=None, strength="none", proof="")


def proven(make: ModuleType, backend: str, log: bytes = b"", bend: Any = unsure) -> tuple[Any, ...]:
    evidence = make.evidence(backend=backend, stderr=log, bend=bend)
    proof = backend_proof(evidence)
    assert proof is not None
    decisive = judge(evidence)[0].reason if judge(evidence) else None
    return proof.actual, proof.strength, proof.proof, decisive


@pytest.mark.parametrize("backend", ["opencl", "vulkan"])
def test_compiled_kernels_in_the_log_prove_a_gpu_where_the_runner_cannot_tell(make: ModuleType, backend: str) -> None:
    assert proven(make, backend) == (None, "none", "", Reason.BACKEND_UNPROVEN)
    assert proven(make, backend, COMPILED) == (backend, "log", COMPILED.decode().strip(), None)


def test_compiled_kernels_do_not_prove_a_cpu_nor_outweigh_a_runner_that_saw_another_backend(make: ModuleType) -> None:
    assert proven(make, "cpu", COMPILED)[3] is Reason.BACKEND_UNPROVEN

    def saw_cpu(told: list[dict[str, Any]]) -> None:
        told[1].update(backend_actual="cpu", strength="inferred", proof="as slow as the CPU")

    assert proven(make, "opencl", COMPILED, saw_cpu) == (
        "cpu", "inferred", "as slow as the CPU", Reason.BACKEND_FALLBACK,
    )  # fmt: skip


def test_single_operators_that_ran_on_the_cpu_make_a_mixture_whatever_the_runner_says(make: ModuleType) -> None:
    log = b"I MNNJNI  : Don't support type Attention, for op_7\nDon't support type GatherV2, for op_9\n"
    actual, strength, proof, decisive = proven(make, "opencl", log, lambda told: None)
    assert (actual, strength, decisive) == ("mixed", "log", Reason.BACKEND_FALLBACK)
    assert proof.splitlines() == ["Don't support type Attention, for op_7", "Don't support type GatherV2, for op_9"]


def test_a_cpu_cell_is_no_mixture(make: ModuleType) -> None:
    log = b"Don't support type Attention, for op_7\n"
    assert proven(make, "cpu", log, lambda told: None)[:2] == ("cpu", "engine")
