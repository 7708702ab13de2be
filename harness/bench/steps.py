"""The folders in which the steps of a cell run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.core.deadline import Deadline
from harness.core.transport import PushItem, Transport, checked
from harness.payload.probe_events import RunLog
from harness.runners.base import Order, Step, step_dir

MAKE_S = 60.0
# Pairs of target and link.
_LINK = 'while [ $# -gt 1 ]; do ln -sf "$1" "$2" || exit 1; shift 2; done'


def ended_well(run: RunLog) -> bool:
    """Return whether a program ended by itself, with exit code 0."""
    return run.end is not None and run.end.why == "exit" and run.end.exit_code == 0


def make_step_dir(transport: Transport, order: Order, step: Step) -> None:
    """Make a step's folder on the phone, with the links and files that the step wants in it.

    Raises:
        PhoneError: the phone or the connection failed, or the phone refused it.
    """
    folder = step_dir(order.work_dir, step)
    deadline = Deadline(MAKE_S, "making the work folder", transport.name)
    inside = sorted({name.rpartition("/")[0] for name in (*step.files, *step.links)} - {""})
    commands = [["mkdir", "-p", folder, *(f"{folder}/{name}" for name in inside)]]
    if step.links:
        links = [part for name, target in sorted(step.links.items()) for part in (target, f"{folder}/{name}")]
        commands.append(["sh", "-c", _LINK, "sh", *links])
    for argv in commands:
        checked(transport.shell(argv, deadline=deadline), transport.name, argv)
    if not step.files:
        return
    with tempfile.TemporaryDirectory(prefix="mnn-farm-") as scratch:
        items = []
        for number, (name, content) in enumerate(sorted(step.files.items())):
            local = Path(scratch) / str(number)
            local.write_bytes(content)
            items.append(PushItem(local, f"{folder}/{name}"))
        transport.push(items, deadline=deadline)
