"""Runs MNN's converter or its offline quantiser. Runs in a process of its own.

The harness never imports this file: both print what goes wrong, end with success whatever happens, and may crash. They
are called in ``_tools`` directly, because ``MNN.tools`` installs packages and reports to a server when it is imported::

    python -m harness.payload._convert_model mnnconvert -f ONNX --modelFile M.onnx --MNNModel M.mnn
    python -m harness.payload._convert_model mnnquant FLOAT.mnn INT8.mnn CONFIG.json
"""

from __future__ import annotations

import importlib
import sys

_TOOLS = ("mnnconvert", "mnnquant")


def main(argv: list[str]) -> int:
    """Run the tool that the first argument names."""
    if not argv or argv[0] not in _TOOLS:
        raise SystemExit(f"give one of {', '.join(_TOOLS)} first")
    getattr(importlib.import_module("_tools"), argv[0])(argv)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
