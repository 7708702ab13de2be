"""The probe as a program to build: its source lies in ``device_bins/probe``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.core.resources import data_root
from harness.payload.zig_build import CProgram, build


def probe_program() -> CProgram:
    """Return the probe's source as a program."""
    return CProgram("probe", data_root() / "device_bins" / "probe", "PROBE_SOURCE")


def source_hash() -> str:
    """Return the SHA-256 of names and contents of the probe's source; ``probe version`` tells the same.

    Raises:
        HostError: the source is not there.
    """
    return probe_program().source_hash()


def build_probe(abi: str, *, progress: Callable[[str], None] | None = None) -> Path:
    """Return the probe's program for an Android ABI; see :func:`harness.payload.zig_build.build`."""
    return build(probe_program(), abi, progress=progress)
