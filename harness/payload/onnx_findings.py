"""What can be said of a conversion from ONNX: one finding each, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.payload.onnx_file import OnnxModel, Value
from harness.payload.tensors import shape_text

#: Every finding by its code, which does not change: how bad it is, and what was found; ``docs/onnx.md`` has the table.
FINDINGS = {
    "not_onnx": ("error", "the file is no ONNX model"),
    "onnx_cut_off": ("error", "the file ends too early"),
    "graph_empty": ("error", "the model has no operator"),
    "external_missing": ("error", "a file with weights that the model names is not there"),
    "external_short": ("error", "a file with weights ends before what the model reads of it"),
    "external_outside": ("error", "the model names a file with weights outside its own folder"),
    "tensor_undefined": ("error", "an operator reads a tensor that nothing makes"),
    "type_unsupported": ("error", "an input or output has a type that MNN has none for"),
    "op_unsupported": ("error", "MNN's converter does not know an operator"),
    "converter_failed": ("error", "MNN's converter refused the model, or wrote none"),
    "converter_crashed": ("error", "MNN's converter crashed"),
    "converter_slow": ("error", "MNN's converter did not end in time"),
    "result_broken": ("error", "what was written is no whole MNN model, or lacks an input or output"),
    "calibration_small": ("error", "too few different samples to calibrate with"),
    "calibration_random": ("error", "the samples look like random numbers"),
    "calibration_constant": ("error", "samples are all the same, hold one value only, or no finite ones"),
    "calibration_accepted": ("warning", "the samples are bad, and were taken anyway"),
    "shape_open": ("warning", "an input has no fixed size"),
    "type_narrowed": ("warning", "MNN keeps an input or output in a smaller type"),
    "opset_new": ("warning", "the operator set is newer than any that the converter can know"),
    "ir_new": ("warning", "the file format is newer than ONNX Runtime reads"),
    "needs_module": ("warning", "the model runs by MNN's Module API only, not as a session"),
    "weights_tiny": ("info", "weights below the smallest normal number were set to zero"),
    "engine_needed": ("info", "the oldest MNN that can run it"),
}

#: The newest operator set and file format of ONNX 1.23, which is younger than MNN 3.6.1.
NEWEST_OPSET = 28
NEWEST_IR = 14
#: What MNN makes of the types of inputs and outputs (``tools/converter``, ``DataType`` to ``halide_type_t``).
ENGINE_DTYPES = {
    "float32": "float32",
    "float16": "float32",
    "float64": "float32",
    "bfloat16": "float32",
    "int32": "int32",
    "int64": "int32",
    "uint32": "int32",
    "uint64": "int32",
    "bool": "int32",
    "int16": "int32",
    "uint16": "int32",
    "int8": "int8",
    "uint8": "uint8",
}
_EXPORT_AGAIN = "copy or download it again, or export the model again"


@dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
        code: one of :data:`FINDINGS`.
        detail: where, and what about it.
        fix: what to do.
    """

    code: str
    detail: str
    fix: str

    @property
    def severity(self) -> str:
        """``error``, ``warning`` or ``info``."""
        return FINDINGS[self.code][0]

    def to_json(self) -> dict[str, str]:
        """Return it as ``mnn-farm models convert --json`` prints it."""
        return {"code": self.code, "severity": self.severity, "detail": self.detail, "fix": self.fix}


#: What to do about a file that cannot be read as a model.
FIXES = {
    "not_onnx": "give the .onnx file that the training framework exported",
    "onnx_cut_off": _EXPORT_AGAIN,
    "graph_empty": "export the model again, with its layers",
}


def check_onnx(model: OnnxModel, folder: Path) -> Iterator[Finding]:
    """Yield what can be said of a model before it is converted.

    Args:
        model: what was read of it.
        folder: where it lies, and its external weights too.
    """
    yield from _external(model, folder)
    for tensor, reader in sorted(set(model.undefined)):
        detail = f"{reader} reads the tensor {tensor!r}, which no operator, input or weight makes"
        yield Finding("tensor_undefined", detail, "export the model again; onnx.checker.check_model says where")
    for word, value in (*(("input", v) for v in model.inputs), *(("output", v) for v in model.outputs)):
        yield from _value(word, value)
    if model.opset > NEWEST_OPSET:
        detail = f"it is written for operator set {model.opset}; the newest that is known here is {NEWEST_OPSET}"
        yield Finding("opset_new", detail, "export it with an older opset_version, e.g. 17")
    if model.ir_version > NEWEST_IR:
        detail = f"its format is IR version {model.ir_version}; ONNX Runtime reads up to {NEWEST_IR}"
        fix = (
            "set model.ir_version = 10 with the onnx package and save it, or no check against ONNX Runtime is possible"
        )
        yield Finding("ir_new", detail, fix)


def _external(model: OnnxModel, folder: Path) -> Iterator[Finding]:
    ends: dict[str, int] = {}
    for piece in model.external:
        ends[piece.location] = max(ends.get(piece.location, 0), piece.offset + (piece.length or 0))
    for location, end in sorted(ends.items()):
        parts = PurePosixPath(location).parts
        if not parts or location.startswith("/") or ".." in parts:
            detail = f"weights are to be read from {location!r}, which is not below the model's folder"
            yield Finding("external_outside", detail, "put the weights beside the model and export it again")
            continue
        try:
            size = (folder / location).stat().st_size
        except OSError as error:
            detail = f"weights lie in {location}, which cannot be read beside the model ({error.strerror})"
            yield Finding("external_missing", detail, f"copy {location} to the folder of the model")
            continue
        if size < end:
            detail = f"{location} has {size} bytes, and the model reads {end} of it"
            yield Finding("external_short", detail, f"copy {location} again, or export the model again")


def _value(word: str, value: Value) -> Iterator[Finding]:
    kept = ENGINE_DTYPES.get(value.dtype)
    if kept is None and value.dtype != "unknown":
        fix = "export the model without it: text and containers are made before or after the model, by the app"
        yield Finding("type_unsupported", f"{word} {value.name} is {value.dtype}", fix)
        return
    if word == "input" and value.open:
        named = f" ({', '.join(symbol for symbol in value.symbols if symbol)})" if any(value.symbols) else ""
        shape = shape_text(value.shape) if value.shape is not None else "of no known shape"
        fix = "give the engine its size before each run, and inputs of full size to the check (--input X.npz); "
        fix += "or export the model with fixed shapes, which lets MNN plan its memory once"
        yield Finding("shape_open", f"input {value.name} is {shape}{named}", fix)
    if kept not in (None, value.dtype):
        fix = f"feed {kept} on the phone" if word == "input" else f"read {kept} on the phone"
        yield Finding("type_narrowed", f"{word} {value.name} is {value.dtype}, which MNN keeps as {kept}", fix)


def markdown_table() -> str:
    """Return the documentation's table of findings."""
    rows = ["| code | severity | what was found |", "| --- | --- | --- |"]
    rows += [f"| `{code}` | {severity} | {says} |" for code, (severity, says) in FINDINGS.items()]
    return "\n".join(rows) + "\n"
