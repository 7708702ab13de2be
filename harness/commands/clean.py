"""``mnn-farm clean``: our files off a phone."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from harness.commands.output import Adb, Json, print_json, say, tell

if TYPE_CHECKING:
    from harness.bench.clean import Cleaned


def clean(
    device: Annotated[str, typer.Option(help="A serial, or any word of pytest's --devices that means one phone.")],
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Only models and device binaries: the phone keeps its id.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also forget what the phone is owed and cannot be put back.")
    ] = False,
    as_json: Json = False,
    adb: Adb = None,
) -> None:
    """Take our files off a phone: end our runs, put its settings back, remove our folder and nothing else.

    A phone that somebody uses is refused. Exit status 1: a setting could not be put back; it is named, and the list of
    what the phone is owed stays on it.
    """
    # What reaches phones is imported when it is needed: other verbs do without.
    from harness.bench.clean import clean as clean_phone
    from harness.bench.phone import open_transport
    from harness.fleet.one import one_phone
    from harness.fleet.servers import read_servers

    with one_phone(device, read_servers(adb)) as endpoint:
        done = clean_phone(open_transport(endpoint), tell, payloads_only=payloads, force=force)
    if as_json:
        print_json({"ok": done.ok, **asdict(done)})
    else:
        for line in lines(done):
            say(line)
    raise typer.Exit(0 if done.ok else 1)


def lines(done: Cleaned) -> list[str]:
    """Return for people what became of a phone."""
    freed = "an unknown number of" if done.freed_bytes is None else f"{done.freed_bytes:,}"
    found = [f"{done.phone}: {freed} bytes freed in {done.folder}"]
    if done.back:
        found.append(f"put back: {', '.join(done.back)}")
    found += [f"left alone: {text}" for text in done.left_alone]
    found += [f"still owed: {text}" for text in done.owed]
    if done.left:
        found.append(f"still in {done.folder}: {', '.join(done.left)}")
    return found + list(done.notes)
