"""A throw-away virtual environment that turns other model formats into MNN folders.

The tools for that (torch, transformers, llmexport) are large and disturb each other's neighbours, so they never enter
the environment of the harness. Where the package index offers torch with CUDA only, making the environment downloads
gigabytes: configure pip for an index that has the CPU build.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from harness.core.errors import HostError

#: Tried together, on Python 3.11: transformers reads GGUF with gguf and accelerate, the rest is what llmexport imports.
REQUIREMENTS = (
    "torch==2.13.0",
    "transformers==5.24.0",
    "accelerate==1.15.0",
    "gguf==0.19.0",
    "onnx==1.23.2",
    "yaspin==3.5.1",
    "MNN==3.6.1",
)
#: Without its dependencies: it wants more than its export of a language model imports.
EXPORTER = "llmexport==0.0.5"

_SCRIPT = Path(__file__).with_name("_export_model.py")
_VENV_S, _PIP_S, _RUN_S = 180, 3600, 3600


class ExportEnvironment:
    """A context manager: the environment lies in ``folder`` while it is open and is removed afterwards.

    Args:
        folder: where to make it; must not exist.
        progress: is told in one line what happens and how long it took.
    """

    def __init__(self, folder: Path, progress: Callable[[str], None]) -> None:
        self.folder = folder
        self._progress = progress
        self._equipped = False

    def __enter__(self) -> ExportEnvironment:
        self._step("make an environment for the conversion", [sys.executable, "-m", "venv", str(self.folder)], _VENV_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def download(self, requirement: str, folder: Path) -> Path:
        """Download the wheel of one requirement, without what it depends on, and return it.

        Raises:
            HostError: pip could not.
        """
        pip = [str(self.python), "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        self._step(f"download {requirement}", [*pip, "--dest", str(folder), requirement], _PIP_S)
        wheels = list(folder.glob("*.whl"))
        if len(wheels) != 1:
            raise HostError(f"pip downloaded {len(wheels)} wheels for {requirement} instead of one")
        return wheels[0]

    def run(self, argv: Sequence[str], what: str) -> None:
        """Run Python code in the environment, which is equipped with the conversion tools at the first call.

        Raises:
            HostError: pip could not install the tools, or the code failed.
        """
        if not self._equipped:
            pip = [str(self.python), "-m", "pip", "install", "--quiet"]
            self._step("install torch, transformers and llmexport in it", [*pip, *REQUIREMENTS], _PIP_S)
            self._step("install llmexport in it", [*pip, "--no-deps", EXPORTER], _PIP_S)
            self._equipped = True
        self._step(what, [str(self.python), *argv], _RUN_S)

    def export(self, kind: str, source: Path, out: Path, *, bits: int, hqq: bool = False) -> None:
        """Make the MNN folder ``out`` from ``source``.

        Args:
            kind: ``hf`` for a Hugging Face folder, ``gguf`` for a GGUF file of a Llama.
            source: what to convert.
            out: the folder to make; scratch files lie beside it.
            bits: bits per weight, 4 or 8.
            hqq: choose the rounding by half-quadratic quantization: nearer to the original, same size, slower to make.

        Raises:
            HostError: the conversion failed or its folder is incomplete.
        """
        argv = [str(_SCRIPT), kind, str(source), str(out), "--bits", str(bits), *(["--hqq"] if hqq else [])]
        self.run(argv, f"convert {source.name} to MNN with {bits} bits")
        for name in ("config.json", "llm_config.json", "llm.mnn", "llm.mnn.weight"):
            made = out / name
            if not made.is_file() or not made.stat().st_size:
                raise HostError(f"the conversion of {source.name} made no {name}")

    def _step(self, what: str, argv: Sequence[str], limit_s: float) -> None:
        self._progress(f"{what} …")
        started = time.monotonic()
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
                env=self._environment(),
            )
        except subprocess.TimeoutExpired:
            raise HostError(f"could not {what}: not done after {limit_s:g} s") from None
        except OSError as error:
            raise HostError(f"could not {what}: {argv[0]} cannot be run ({error.strerror})") from error
        if done.returncode:
            said = last_words(done.stdout.decode("utf-8", "replace"))
            raise HostError(f"could not {what}: {said or f'exit code {done.returncode}'}")
        self._progress(f"{what}: done in {time.monotonic() - started:.0f} s")

    def _environment(self) -> dict[str, str]:
        """Return the variables for programs in it: nothing of ours on the path, no hub is contacted."""
        ours = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        return {
            **ours,
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(self.folder / "hub"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
        }


def last_words(output: str) -> str:
    """Return the line of a program's output that says best why it failed: pip's last ``ERROR:``, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [""])[-1][:300]
