"""A model folder of a cell's own: MNN's tools take all settings from ``config.json``, which lies beside the weights.

The folder is made of links to the model on the phone, and a ``config.json`` that is the model's with the cell's keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.core.errors import ConfigError
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import RunnerName
from harness.payload.models import ModelFolder
from harness.runners.base import Order

FOLDER = "model"
CONFIG = "config.json"


def program_of(bundle: Bundle, runner: RunnerName) -> str | None:
    """Return the path of a runner's program in a bundle, ``None`` where it has none."""
    if bundle.manifest.variants:
        return bundle.manifest.programs.get(runner)
    return bundle.manifest.program if bundle.manifest.runner == runner else None


def own_links(order: Order) -> dict[str, str]:
    """Return the links to every file of the model but its settings."""
    files = [file.path for file in order.model.folder.files if file.path != CONFIG]
    return {f"{FOLDER}/{name}": f"{order.model_dir}/{name}" for name in files}


def own_config(order: Order, more: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the settings of a cell: the model's own, then the cell's, then ``more``."""
    cell = order.cell
    keys = {
        "backend_type": cell.backend,
        "thread_num": cell.threads,
        "precision": cell.precision,
        "memory": cell.memory,
        "sampler_type": "greedy",
        "async": False,
        "reuse_kv": False,
        "speculative_type": "",
        **cell.engine,
        **more,
    }
    return {f"{FOLDER}/{CONFIG}": json.dumps({**model_settings(order.model), **keys}, indent=1).encode()}


def model_settings(model: ModelFolder) -> dict[str, Any]:
    """Return a model's own ``config.json``.

    Raises:
        ConfigError: it cannot be read.
    """
    file = model.folder.root / CONFIG
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", remedy="restore the file") from None
    if not isinstance(settings, dict):
        raise ConfigError(f"{file} is no JSON object", remedy="restore the file")
    return settings
