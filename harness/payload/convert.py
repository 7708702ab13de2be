"""From ONNX to MNN: a model looked at, converted, looked at again, and put into a folder with log and record."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.errors import ConfigError, HostError
from harness.payload.calibration import judge_samples
from harness.payload.convert_record import NAME, record_of
from harness.payload.convert_tools import ToolRun, findings_of, run_tool, write_calibration
from harness.payload.engine_needs import graph_needs, version_of
from harness.payload.expected import expect, settle
from harness.payload.mnn_graph import read_graph
from harness.payload.mnn_weights import Weights, stored_weights
from harness.payload.onnx_file import OnnxError, OnnxModel, read_onnx
from harness.payload.onnx_findings import FIXES, Finding, check_onnx
from harness.payload.samples import Sample, read_samples

LOG = "convert.log"
#: What the converter is told for each way to store weights.
_FLAGS = {
    Weights.FULL: (),
    Weights.HALF: ("--fp16",),
    # Half-quadratic rounding costs neither size nor speed. Plain rounding to 8 bits left of the text detector of
    # docs/onnx.md a cosine similarity of 0.44 on pictures with text, this 0.998; random inputs did not show it.
    Weights.INT8: ("--weightQuantBits", "8", "--hqq"),
    Weights.INT4: ("--weightQuantBits", "4", "--hqq", "--weightQuantBlock", "32"),
    Weights.CALIBRATED: (),
}


@dataclass(frozen=True)
class ConvertOptions:
    """How to convert. ``calibration`` is a folder of samples and goes with :attr:`Weights.CALIBRATED`.

    ``samples`` is a folder of real inputs that go beside the model, with what ONNX Runtime makes of them.
    """

    weights: Weights = Weights.FULL
    calibration: Path | None = None
    anyway: bool = False
    samples: Path | None = None
    timeout_s: float = 1800.0


@dataclass(frozen=True)
class Conversion:
    """What became of it: ``model`` and ``record`` are ``None`` when it failed, and a finding is an error then."""

    findings: tuple[Finding, ...]
    model: Path | None = None
    record: dict[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a model."""
        return self.model is not None


class _StoppedError(Exception):
    """A finding is an error."""


@dataclass
class _Work:
    source: Path
    out: Path
    options: ConvertOptions
    scratch: Path
    findings: list[Finding] = field(default_factory=list)
    log: str = ""
    calibration: dict[str, Any] | None = None

    def found(self, findings: Sequence[Finding]) -> None:
        """Keep findings; an error ends the work."""
        self.findings += findings
        if any(finding.severity == "error" for finding in findings):
            raise _StoppedError

    def run(self, *argv: str) -> ToolRun:
        """Run a tool and keep its log. It runs where the model lies, from where it reads external weights."""
        done = run_tool(argv, self.source.parent, self.options.timeout_s)
        self.log += done.log.replace(f"{self.scratch}/", "").replace(f"{self.source.parent}/", "")
        return done


def convert_model(source: Path, out: Path, options: ConvertOptions | None = None) -> Conversion:
    """Convert a model into the folder ``out``: ``NAME.mnn``, ``convert.log`` and ``convert.json``.

    A model that cannot be converted changes nothing in the folder but ``convert.log``. What was expected of another
    conversion goes.

    Raises:
        ConfigError: there is no such model or folder of samples, the model cannot be run on one, or the folder holds
            another model.
        ModelRunError: ONNX Runtime cannot run the model on the samples.
        HostError: the folder cannot be written, the converter cannot be started, or ONNX Runtime is not installed.
    """
    source = source.resolve()
    if not source.is_file():
        raise ConfigError(f"{source} is no file", remedy="give the .onnx file")
    others = [file.name for file in out.glob("*.mnn") if file.stem != source.stem] if out.is_dir() else []
    if others:
        raise ConfigError(f"{out} holds another model, {others[0]}", remedy="give each model a folder of its own")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".convert-", dir=out) as scratch:
            work = _Work(source, out, options or ConvertOptions(), Path(scratch).resolve())
            try:
                made, record = _convert(work)
            except _StoppedError:
                return Conversion(tuple(work.findings))
            finally:
                if work.log:
                    (out / LOG).write_text(work.log, encoding="utf-8")
            (work.scratch / NAME).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            expect(work.source, _given(work), work.scratch)
            settle(work.scratch, out)
            # The record is by hash: between these two lines it is that of no model.
            model = made.replace(out / made.name)
            (work.scratch / NAME).replace(out / NAME)
            return Conversion(tuple(work.findings), model, record)
    except OSError as error:
        raise HostError(f"{source.name} cannot be converted into {out} ({error.strerror or error})") from error


def _given(work: _Work) -> list[Sample]:
    if work.options.samples is None:
        return []
    return read_samples(work.options.samples, tuple(value.name for value in read_onnx(work.source).inputs))


def _convert(work: _Work) -> tuple[Path, dict[str, Any]]:
    try:
        read = read_onnx(work.source)
    except OnnxError as error:
        work.found([Finding(error.code, f"{work.source.name}: {error}", FIXES[error.code])])
        raise AssertionError("what cannot be read is an error") from error
    work.found(list(check_onnx(read, work.source.parent)))
    samples = _calibration(work, read)
    made = work.scratch / f"{work.source.stem}.mnn"
    flags = _FLAGS[work.options.weights]
    files = ("--modelFile", str(work.source), "--MNNModel", str(made))
    done = work.run("mnnconvert", "-f", "ONNX", *files, "--bizCode", "mnn-farm", *flags)
    work.found(findings_of(done, "MNN's converter", made))
    if samples:
        made = _quantize(work, read, made, samples)
    return made, _record(work, read, made, flags)


def _calibration(work: _Work, read: OnnxModel) -> list[Sample]:
    """Return the samples to calibrate with, none where that is not asked for."""
    if work.options.calibration is None:
        return []
    samples = read_samples(work.options.calibration, tuple(value.name for value in read.inputs))
    judged = list(judge_samples(samples))
    if work.options.anyway:
        judged = [Finding("calibration_accepted", finding.detail, finding.fix) for finding in judged]
    work.found(judged)
    work.calibration = {"samples": len(samples)}
    return samples


def _quantize(work: _Work, read: OnnxModel, full: Path, samples: Sequence[Sample]) -> Path:
    config = write_calibration(samples, [value.name for value in read.outputs], work.scratch)
    made = full.with_name("quantised") / full.name
    made.parent.mkdir()
    done = work.run("mnnquant", str(full), str(made), str(config))
    work.found(findings_of(done, "MNN's quantiser", made))
    return made


def _record(work: _Work, read: OnnxModel, made: Path, flags: Sequence[str]) -> dict[str, Any]:
    again = "convert it again; if it stays, report it to MNN with convert.log"
    data = made.read_bytes()
    try:
        graph, weights = read_graph(data), stored_weights(data)
    except ValueError as error:
        work.found([Finding("result_broken", f"the converted model is not whole ({error})", again)])
        raise AssertionError("a broken model is an error") from error
    wanted, written = {value.name for value in read.outputs}, set(graph.outputs)
    lost = sorted(wanted - written) + sorted(set(graph.inputs) - {value.name for value in read.inputs})
    if lost:
        detail = f"the converted model has other inputs or outputs than the original: {', '.join(lost)}"
        work.found([Finding("result_broken", detail, again)])
    if graph.subgraphs:
        detail = "the model has parts that run by a condition or in a loop"
        fix = "run it by MNN's Module API (ModuleBasic.out, farm_runner); MNNV2Basic.out and sessions cannot"
        work.found([Finding("needs_module", detail, fix)])
    needs = sorted(graph_needs(graph), key=lambda need: version_of(need.since) or (), reverse=True)
    if needs:
        detail = f"{needs[0].what} came with MNN {needs[0].since}"
        work.found([Finding("engine_needed", detail, f"take device binaries of MNN {needs[0].since} or newer")])
    return record_of(
        work.source,
        read,
        made,
        weights=weights,
        api="module" if graph.subgraphs else "session",
        engine_needed=needs[0].since if needs else None,
        converter=graph.version,
        options=flags,
        calibration=work.calibration,
        findings=work.findings,
    )
