"""The outputs of a tensor cell, brought from the phone. All that the phone tells of them is doubted until it fits."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.deadline import Deadline
from harness.core.transport import Transport
from harness.payload.tensor_case import TensorCase, Tensors
from harness.payload.tensors import Array, shape_text
from harness.runners.events import TensorFile
from harness.runners.tensor_text import TEXT, array_of

#: The engine's types.
DTYPES = ("float32", "int32", "uint8", "int8")
#: No cell brings more: of a network with a thousand pictures as outputs the plan should compare fewer samples.
MOST_BYTES = 512 << 20
_PULL_S = 300.0
_FILE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_AT_ONCE = 50
# A size a line; a file that is not there has none.
_SIZES = 'for file; do if [ -f "$file" ]; then wc -c < "$file"; else echo none; fi; done'


@dataclass(frozen=True, eq=False)
class Pulled:
    """What came of each sample, under the reference's names, and what could not be had, each in one sentence."""

    made: tuple[Tensors, ...]
    problems: tuple[str, ...]


def pull_outputs(transport: Transport, folder: str, told: Sequence[TensorFile], case: TensorCase) -> Pulled:
    """Bring the outputs that a runner wrote to ``folder`` on the phone.

    Only what has the name, shape and size that the reference has is brought.

    Raises:
        PhoneError: the phone or the connection failed.
    """
    problems: list[str] = []
    wanted: list[tuple[int, str, TensorFile]] = []
    unknown = {one.sample for one in told} - set(case.names)
    if unknown:
        problems.append(f"outputs were told of a sample {min(unknown)[:60]!r}, which nobody asked for")
    for index, name in enumerate(case.names):
        of_sample = [one for one in told if one.sample == name]
        for output, one in _matched(case, index, of_sample, problems):
            wanted.append((index, output, one))
    made: list[dict[str, Array]] = [{} for _ in case.names]
    deadline = Deadline(_PULL_S, "bringing the outputs", transport.name)
    sizes = _sizes(transport, [f"{folder}/{one.file}" for _, _, one in wanted], deadline)
    for (index, output, one), size in zip(wanted, sizes, strict=True):
        of = f"output {output} of sample {case.samples[index]}"
        if size is None:
            problems.append(f"{of} is not there: the phone has no file {one.file}")
        elif says := _unlike(one, size):
            problems.append(f"{of} {says}")
        else:
            array = _pull(transport, f"{folder}/{one.file}", one, case.expected[index][output].shape, deadline)
            if isinstance(array, str):
                problems.append(f"{of} {array}")
            else:
                made[index][output] = array
    return Pulled(tuple(made), tuple(problems))


def _matched(
    case: TensorCase, index: int, told: Sequence[TensorFile], problems: list[str]
) -> Iterator[tuple[str, TensorFile]]:
    """Yield the outputs of a sample that may be brought, by the reference's names; a single one may have any name."""
    expected, sample = case.expected[index], case.samples[index]
    alone = len(expected) == len(told) == 1
    seen: set[str] = set()
    for one in told:
        name = next(iter(expected)) if alone else one.name
        says = _unfit(name, one, expected, seen)
        seen.add(name)
        if says:
            problems.append(f"output {name[:100]} of sample {sample} {says}")
        else:
            yield name, one
    problems += [f"output {name} of sample {sample} is missing" for name in sorted(set(expected) - seen)]


def _unfit(name: str, one: TensorFile, expected: Tensors, seen: set[str]) -> str:
    """Return what is wrong with an output as it was told, ``""`` if nothing."""
    if name not in expected:
        return f"is none of the reference's ({', '.join(sorted(expected))})"
    if name in seen:
        return "was told twice"
    # Of a text the shape is not told: only how many numbers there are can be held against the reference.
    if one.dtype != TEXT and one.shape != expected[name].shape:
        return f"is {shape_text(one.shape)}, the reference's is {shape_text(expected[name].shape)}"
    if one.dtype not in (*DTYPES, TEXT):
        return f"has the type {one.dtype[:40]!r}, which the engine has not"
    if not _FILE.fullmatch(one.file):
        return f"is said to lie in {one.file[:60]!r}, which is no name of a file"
    if one.dtype != TEXT and _bytes_of(one) > MOST_BYTES:
        return f"has {_bytes_of(one)} bytes, more than is brought ({MOST_BYTES})"
    return ""


def _unlike(one: TensorFile, size: int) -> str:
    """Return why a file of that size is not brought, ``""`` if it is."""
    if one.dtype == TEXT:
        return f"has {size} bytes, more than is brought ({MOST_BYTES})" if size > MOST_BYTES else ""
    if size != _bytes_of(one):
        return f"has {size} bytes on the phone, {shape_text(one.shape)} of {one.dtype} are others"
    return ""


def _bytes_of(one: TensorFile) -> int:
    return math.prod(one.shape) * np.dtype(one.dtype).itemsize


def _sizes(transport: Transport, paths: Sequence[str], deadline: Deadline) -> list[int | None]:
    """Ask for the sizes of files; ``None`` for one that is not there."""
    found: list[int | None] = []
    for first in range(0, len(paths), _AT_ONCE):
        chunk = paths[first : first + _AT_ONCE]
        said = transport.shell(["sh", "-c", _SIZES, "sh", *chunk], deadline=deadline).stdout.split()
        sizes = [int(word) if word.isdigit() and len(word) < 16 else None for word in said]
        found += [*sizes, *[None] * len(chunk)][: len(chunk)]
    return found


def _pull(
    transport: Transport, remote: str, one: TensorFile, shape: tuple[int, ...], deadline: Deadline
) -> Array | str:
    """Bring an output; ``shape`` is the reference's. What is wrong with it is a text."""
    with tempfile.TemporaryDirectory(prefix="mnn-farm-outputs-") as scratch:
        local = Path(scratch) / "output"
        transport.pull(remote, local, deadline=deadline)
        if one.dtype == TEXT:
            try:
                return array_of(local.read_bytes(), shape)
            except ValueError as error:
                return str(error)
        if local.stat().st_size != _bytes_of(one):
            return "did not arrive whole"
        return np.fromfile(local, np.dtype(one.dtype).newbyteorder("<")).reshape(one.shape)
