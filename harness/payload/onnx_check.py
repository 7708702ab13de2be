"""A converted model, or outputs that a phone made, against the ONNX model that it came from, run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import ConfigError, ModelRunError
from harness.core.reasons import Reason
from harness.payload.accuracy import Kept, accuracy_kept
from harness.payload.convert_record import read_record
from harness.payload.mismatch import Case, Cause, Outputs, Runs, find_cause
from harness.payload.mnn_weights import Weights, stored_weights
from harness.payload.onnx_file import OnnxError, read_onnx
from harness.payload.onnx_findings import FIXES, check_onnx
from harness.payload.samples import Sample, read_samples
from harness.payload.tensor_files import read_tensors
from harness.payload.tensor_run import RunOptions, run_many, run_model
from harness.payload.tensors import Array, Comparison, compare

#: What makes ONNX Runtime refuse a model that MNN's converter takes.
_REFUSED = {"opset_new", "ir_new", "external_missing", "external_short", "external_outside", "tensor_undefined"}
#: A cause has to hold for so many samples that differ.
_CASES = 6
#: Outputs this much alike, of which so many elements agree, are the same but for rounding.
_SAME, _MOST = 0.999999, 0.99


@dataclass(frozen=True, eq=False)
class Checked:
    """The answer.

    Attributes:
        weights: how the checked model's weights are stored; ``FULL`` for captured outputs.
        comparison: of the sample that differs most, element by element; ``None`` where none could be run.
        sample: which that is.
        kept: what is kept over all samples.
        samples: how many.
        cause: why they differ, where that was found.
        problem: why the checked model could not be run.
    """

    weights: Weights
    comparison: Comparison | None
    sample: str
    kept: tuple[Kept, ...]
    samples: int
    cause: Cause | None
    problem: str
    ok: bool

    @property
    def rounded(self) -> bool:
        """Whether they differ by no more than rounding that a steep layer enlarges: no mistake looks like this."""
        nearly = self.comparison is not None and all((each.share or 0) >= _MOST for each in self.comparison.outputs)
        return nearly and all(not each.failed and (each.cosine_min or 0) > _SAME for each in self.kept)


def samples_for(
    reference: Path, inputs: Mapping[str, Array] | None, folder: Path | None, seed: int
) -> tuple[list[Sample], str]:
    """Return what both sides are fed, and where it is from: ``samples``, ``given`` or ``random``.

    Raises:
        ConfigError: the folder cannot be read, or random inputs cannot be made for open dimensions.
        ModelRunError: the reference cannot be loaded.
    """
    names = readable(reference)
    if folder is not None:
        return read_samples(folder, names), "samples"
    if inputs is not None:
        return [Sample("the input", inputs)], "given"
    try:
        run = run_model(reference, None, seed=seed)
    except ModelRunError as error:
        raise explained(reference, error) from None
    return [Sample(f"random input {seed}", run.inputs)], "random"


def readable(model: Path) -> tuple[str, ...]:
    """Return the names of an ONNX model's inputs.

    Raises:
        ConfigError: there is no such file.
        ModelRunError: it is no whole ONNX model.
    """
    try:
        return tuple(value.name for value in read_onnx(model).inputs)
    except OnnxError as error:
        says = f"{model}: {error}"
        raise ModelRunError(says, remedy=FIXES[error.code], reason=Reason.LOAD_ERROR) from error
    except OSError as error:
        raise ConfigError(f"{model} cannot be read ({error.strerror})", remedy="check the path") from error


def explained(model: Path, error: ModelRunError) -> ModelRunError:
    """Return the error of a model that ONNX Runtime refused, with the cause that its file shows, where it does."""
    for finding in check_onnx(read_onnx(model), model.parent):
        if error.reason is Reason.LOAD_ERROR and finding.code in _REFUSED:
            return ModelRunError(f"{model}: {finding.detail}", remedy=finding.fix, reason=error.reason)
    return error


def check_against_onnx(
    doubted: Path, reference: Path, samples: Sequence[Sample], tolerance: float, precision: str
) -> Checked:
    """Run both on all samples and compare; where they differ, look for the cause by trying the usual mistakes.

    Raises:
        ConfigError: the samples do not fit the reference.
        ModelRunError: a model cannot be loaded.
    """
    options = RunOptions(precision=precision)
    is_model = doubted.suffix.lower() == ".mnn"
    weights = weights_of(doubted) if is_model else Weights.FULL
    fed = [sample.inputs for sample in samples]
    try:
        wanted = run_many(reference, fed)
    except ModelRunError as error:
        raise explained(reference, error) from None
    expected: list[Outputs] = []
    for sample, outputs in zip(samples, wanted, strict=True):
        if isinstance(outputs, str):
            raise ConfigError(
                f"{reference} cannot be run on {sample.name}: {outputs}", remedy="give inputs that fit it"
            )
        expected.append(outputs)
    made = run_many(doubted, fed, options=options) if is_model else [read_tensors(doubted)]
    if len(made) != len(expected):
        raise ConfigError(f"{doubted} holds the outputs of one input", remedy="give that input: --input FILE.npz")
    aligned = [_aligned(outputs, want) for outputs, want in zip(made, expected, strict=True)]
    whole = [{} if isinstance(outputs, str) else outputs for outputs in aligned]
    comparisons = [compare(outputs, want, tolerance) for outputs, want in zip(whole, expected, strict=True)]
    kept = accuracy_kept(whole, expected)
    if weights is Weights.FULL:
        good = [comparison.ok for comparison in comparisons]
    else:
        good = [
            all(each.enough(weights) for each in accuracy_kept([a], [b])) for a, b in zip(whole, expected, strict=True)
        ]
    ok = all(good) if weights is Weights.FULL else all(output.enough(weights) for output in kept)
    worst = max(range(len(samples)), key=lambda index: (not good[index], _error(comparisons[index])))
    failed = aligned[worst]
    checked = Checked(
        weights=weights,
        comparison=None if isinstance(failed, str) else comparisons[worst],
        sample=samples[worst].name,
        kept=kept,
        samples=len(samples),
        cause=None,
        problem=failed if isinstance(failed, str) else "",
        ok=ok,
    )
    if ok or checked.rounded:
        return checked
    runs = Runs(
        (lambda inputs: run_many(doubted, inputs, options=options)) if is_model else None,
        lambda inputs: run_many(reference, inputs),
        (doubted.name, reference.name),
        exact=is_model and weights is Weights.FULL,
    )
    order = [worst, *(index for index in range(len(fed)) if index != worst and not good[index])][:_CASES]
    cases = [Case(fed[index], aligned[index], expected[index]) for index in order]
    return replace(checked, cause=find_cause(cases, runs, tolerance))


def weights_of(model: Path) -> Weights:
    """Return how a model's weights are stored: as its record says, else as it looks itself.

    Raises:
        ConfigError: the record beside it is broken.
        ModelRunError: it is no whole MNN model.
    """
    record = read_record(model)
    if record is not None:
        return record.weights
    try:
        return stored_weights(model.read_bytes())
    except OSError as error:
        raise ConfigError(f"{model} cannot be read ({error.strerror})", remedy="check the path") from error
    except ValueError as error:
        says = f"{model} is no whole MNN model ({error})"
        raise ModelRunError(says, remedy="convert the model again", reason=Reason.LOAD_ERROR) from error


def _aligned(outputs: Outputs | str, wanted: Outputs) -> Outputs | str:
    """Return outputs under the reference's names; a single one may have any name."""
    if not isinstance(outputs, str) and len(outputs) == len(wanted) == 1:
        return dict(zip(wanted, outputs.values(), strict=True))
    return outputs


def _error(comparison: Comparison) -> float:
    errors = [output.max_error for output in comparison.outputs]
    return max((float("inf") if error is None else error for error in errors), default=float("inf"))
