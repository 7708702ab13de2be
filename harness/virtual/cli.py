"""``mnn-farm virtual``: virtual phones for people to play with, and their faults."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from harness.core.errors import ConfigError
from harness.virtual.control import PhoneControl, PhoneInfo, find_phone, running_phones
from harness.virtual.faults import HEAL, KINDS
from harness.virtual.launch import Launched
from harness.virtual.words import MAX_PHONES, wanted_profiles

app = typer.Typer(no_args_is_help=True, help="Virtual phones: bring up, list, give faults, take down.")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@app.command("up", epilog="Example: mnn-farm virtual up 2 --profile high")
def up(
    count: Annotated[int, typer.Argument(help=f"How many phones, 1 to {MAX_PHONES}.")] = 1,
    profile: Annotated[str | None, typer.Option(help="Which one (default: high, mid and low in turn).")] = None,
) -> None:
    """Bring up virtual phones that stay until `mnn-farm virtual down`, with an adb server of their own."""
    from harness.virtual.profile import load_profile, profile_names  # slow to import, and `mnn-farm --help` imports us

    try:
        profiles = wanted_profiles([f"{profile}*{count}" if profile is not None else str(count)], profile_names())
    except ValueError as error:
        raise ConfigError(str(error).removeprefix("virtual:")) from error
    for name in dict.fromkeys(profiles):
        load_profile(name)
    supervisor = Launched(detached=True)
    endpoints = supervisor.bring_up(profiles)
    supervisor.close_pipes()
    for endpoint in endpoints:
        typer.echo(f"{endpoint.name}  {endpoint.transport_serial}")
    typer.echo("They are on an adb server of their own. To use it in this shell, for adb and for pytest --devices all:")
    typer.echo(f"export ANDROID_ADB_SERVER_PORT={endpoints[0].adb_port}")


@app.command("list", epilog="Example: mnn-farm virtual list --json")
def list_phones(as_json: Json = False) -> None:
    """List the virtual phones that are up, those of running test programs too."""
    phones = running_phones()
    if as_json:
        typer.echo(json.dumps({"phones": [asdict(phone) for phone in phones]}, indent=1))
        return
    for phone in phones:
        typer.echo(_row(phone))
    if not phones:
        typer.echo("none; mnn-farm virtual up 1 starts one")


def _row(phone: PhoneInfo) -> str:
    words = [phone.name, phone.serial, f"adb port {phone.adb_port}", phone.model]
    if not phone.on:
        words.append("off")
    if not phone.detached:
        words.append(f"belongs to process {phone.supervisor_pid}")
    if phone.faults:
        words.append(f"faults: {' '.join(phone.faults)}")
    return "  ".join(words)


@app.command("down", epilog="Example: mnn-farm virtual down virtual-high-1")
def down(
    name: Annotated[str | None, typer.Argument(help="A name or serial of `virtual list` (default: all).")] = None,
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep /data for the next start.")] = False,
) -> None:
    """Take virtual phones down, with everything that runs and lies on them."""
    if name is not None:
        controls = [find_phone(name)]
    else:
        controls = [PhoneControl(phone.name) for phone in running_phones() if phone.detached]
    for control in controls:
        control.down(keep_data=keep_data)
        typer.echo(f"{control.name} is down")
    if not controls:
        typer.echo("nothing to take down")


def _table() -> str:
    rows = [f"{kind.name}{'=' + kind.argument if kind.argument else ''}: {kind.means}" for kind in KINDS.values()]
    return "\n\n".join((*rows, f"{HEAL}: everything is taken back; returns when adb can use the phone again"))


@app.command(
    "fault",
    epilog="Example: mnn-farm virtual fault virtual-high-1 cut-push=1000000\n\nFaults:\n\n" + _table(),
)
def fault(
    phone: Annotated[str, typer.Argument(help="A name or serial of `virtual list`.")],
    what: Annotated[str, typer.Argument(metavar="FAULT[=ARG]", help="What is to break; `heal` takes all back.")],
) -> None:
    """Break something on a virtual phone."""
    typer.echo(_row(find_phone(phone).inject(what)))
