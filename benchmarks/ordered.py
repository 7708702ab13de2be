"""The synthetic runner with orders of its own, as a bundle: for tests and benchmarks that want a known truth."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.core.resources import data_root


def ordered_bundle(folder: Path, orders: Iterable[str], manifest: Mapping[str, object] | None = None) -> Path:
    """Make a bundle in a new folder, and return it.

    Args:
        folder: where; it must not be there yet.
        orders: what the runner is to do, e.g. ``token_ms=5`` (``device_bins/runner/synthetic/orders.c``).
        manifest: further values of ``bundle.toml``, in the place of those that it has.

    Raises:
        ValueError: the manifest has no such value.
    """
    shutil.copytree(data_root() / "device_bins" / "runner" / "synthetic", folder)
    words = [word for order in orders for word in ("--synthetic", order)]
    values = {"extra_args": words, **(manifest or {})}
    file = folder / "bundle.toml"
    lines = []
    for line in file.read_text().splitlines():
        key = line.partition(" = ")[0]
        lines.append(f"{key} = {json.dumps(values.pop(key))}" if key in values else line)
    if values:
        raise ValueError(f"{file} has no {', '.join(values)}")
    file.write_text("\n".join(lines) + "\n")
    return folder
