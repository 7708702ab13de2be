"""The command that ran on a phone, as a person repeats it: blocks to paste into a shell on the PC. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from harness.runners.base import Order, Step, step_dir

_USUAL_SERVER = ("127.0.0.1:5037", "localhost:5037")


def work_name(step: Step, file: str) -> str:
    """Return where a file that a step wants in its folder lies in the crash bundle."""
    return f"work/{step.name}/{file}"


def command_text(order: Order, steps: Sequence[Step], serial: str, server: str | None) -> str:
    """Return how to repeat a cell's runs, from the folder of its crash bundle.

    Args:
        order: the cell as it was ordered.
        steps: the runs that were begun.
        serial: as adb lists the phone.
        server: the adb server, ``None`` for what is not on adb.
    """
    lines = [
        "# What mnn-farm ran, without its probe. Paste it into a shell on the PC, in this folder.",
        f"# The binaries are in {order.bundle_dir}",
        f"# and the model in {order.model_dir} on the phone,",
        "# as long as mnn-farm has not made room for others; then copy both there again.",
    ]
    for step in steps:
        lines += ["", f"# {step.name}", *_of_step(step, step_dir(order.work_dir, step), serial, server)]
    return "\n".join(lines) + "\n"


def _of_step(step: Step, folder: str, serial: str, server: str | None) -> Iterator[str]:
    inside = sorted({name.rpartition("/")[0] for name in (*step.files, *step.links)} - {""})
    yield _on_phone(shlex.join(["mkdir", "-p", folder, *(f"{folder}/{name}" for name in inside)]), serial, server)
    for name in sorted(step.files):
        here, there = work_name(step, name), f"{folder}/{name}"
        copy = ["cp", here, there] if server is None else [*_adb(serial, server), "push", here, there]
        yield shlex.join(copy)
    for name, target in sorted(step.links.items()):
        yield _on_phone(shlex.join(["ln", "-sf", target, f"{folder}/{name}"]), serial, server)
    env = ["env", *(f"{key}={value}" for key, value in sorted(step.env.items()))] if step.env else []
    run = f'cd {shlex.quote(folder)} && {shlex.join([*env, *step.argv])}; echo "exit code $?"'
    yield _on_phone(run, serial, server)


def _on_phone(script: str, serial: str, server: str | None) -> str:
    if server is None:
        return f"( {script} )"
    return shlex.join([*_adb(serial, server), "shell", script])


def _adb(serial: str, server: str) -> list[str]:
    host, _, port = server.rpartition(":")
    return ["adb", *([] if server in _USUAL_SERVER else ["-H", host, "-P", port]), "-s", serial]
