"""What is particular about an attempt of a tensor cell: what it feeds, and its outputs held to the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.bench.recovery import worth_a_climb
from harness.bench.tensor_compare import TensorResult, demand_of
from harness.bench.tensor_pull import Pulled, pull_outputs
from harness.core.errors import PhoneError
from harness.core.transport import Transport
from harness.payload.tensor_case import case_of
from harness.payload.tensor_files import write_tensors
from harness.plan.model import Plan
from harness.runners.base import Order, outputs_dir
from harness.runners.events import RunnerLog


def with_tensors(order: Order, plan: Plan, say: Callable[[str], None]) -> Order:
    """Return the order with what a tensor cell feeds and expects; its reference may have to be computed here.

    Raises:
        ConfigError: a sample does not fit the model, or there is none to be had.
        FarmError: this computer cannot compute the reference.
    """
    model, asked = order.model.tensor, plan.tensor
    if not order.cell.tensor or model is None:
        return order
    return replace(order, tensors=case_of(model, order.model.folder.hash, asked.samples, asked.seed, say))


def bring_outputs(
    order: Order, told: RunnerLog, transport: Transport, come_back: Callable[[PhoneError], None]
) -> Pulled | None:
    """Bring a tensor cell's outputs; a phone that was lost just now is waited for once, by ``come_back``.

    Raises:
        PhoneError: it did not come back, or was lost again.
    """
    if order.tensors is None:
        return None
    folder = outputs_dir(order.work_dir)
    try:
        return pull_outputs(transport, folder, told.outputs, order.tensors)
    except PhoneError as error:
        if not worth_a_climb(error):
            raise
        come_back(error)
        return pull_outputs(transport, folder, told.outputs, order.tensors)


def keep_outputs(result: TensorResult, folder: Path) -> None:
    """Keep outputs that are wrong, a file a sample: ``mnn-farm models check`` looks for the cause in them.

    Raises:
        OSError: the disk refuses.
    """
    folder.mkdir(exist_ok=True)
    for name, made in zip(result.case.names, result.pulled.made, strict=True):
        if made:
            write_tensors(folder / f"{name}.npz", made)


def held_to_reference(order: Order, pulled: Pulled | None, plan: Plan) -> TensorResult | None:
    """Return what a tensor cell's outputs are against the reference, where there are any."""
    if order.tensors is None or pulled is None:
        return None
    return TensorResult(order.tensors, pulled, demand_of(order.cell, order.tensors.weights, plan.tensor.tolerance))
