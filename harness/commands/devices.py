"""``mnn-farm devices``: every phone that adb lists, who holds it, what failed on it; hold and release."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType

from harness.commands.output import Adb, Json, print_json, say
from harness.core.errors import ConfigError, FarmError
from harness.core.ids import utc_now
from harness.core.reasons import Reason
from harness.phone.health import HealthStore

if TYPE_CHECKING:
    from harness.fleet.choose import Listed

_NARROWEST = 120

app = typer.Typer(
    invoke_without_command=True,
    help="Phones that adb lists: usable or why not; hold, release, history.",
    epilog="Example: mnn-farm devices --json",
)


@app.callback()
def devices(context: typer.Context, as_json: Json = False, adb: Adb = None) -> None:
    """Show every phone that adb lists: state, model, SoC, tier, battery, lease holder, usable or why not.

    It only looks: no lease is taken and no setting changed. The probe is put on phones that lack it.
    """
    if context.invoked_subcommand is not None:
        return
    # Here and below, what reaches phones is imported when it is needed: other verbs do without.
    from harness.fleet import show
    from harness.fleet.look import look_at_all
    from harness.fleet.servers import list_phones, read_servers

    listing = list_phones(read_servers(adb))
    phones = look_at_all(listing.phones, HealthStore(), utc_now())
    if as_json:
        silent = [{"server": name, "reason": why.reason, "remedy": why.remedy} for name, why in listing.silent]
        print_json({"phones": [show.as_json(seen) for seen in phones], "silent_servers": silent})
        return
    if phones:
        _print(show.phones_table(phones))
    else:
        say("adb lists no phone; connect one, or start a virtual one: mnn-farm virtual up 1")
    for line in [*show.remarks(phones), *(f"{name}: {why.reason}" for name, why in listing.silent)]:
        say(line)


@app.command("hold", epilog="Example: mnn-farm devices hold R58M123ABC --hours 12 --reason 'swollen battery'")
def hold(
    name: Annotated[str, typer.Argument(help="A phone as `mnn-farm devices` names it.")],
    hours: Annotated[float | None, typer.Option(help="For how long (default: until released).", min=0.01)] = None,
    reason: Annotated[str, typer.Option(help="Why, for the others.")] = "",
    adb: Adb = None,
) -> None:
    """Hold a phone out of all runs on this computer."""
    health = HealthStore()
    phone_id = _find(health, name, adb)
    now = utc_now()
    until = None if hours is None else now + timedelta(hours=hours)
    held = health.hold(phone_id, name, Reason.HELD.code, reason, until, "person", now=now)
    say(f"{name} is {held.text}")


@app.command("release", epilog="Example: mnn-farm devices release R58M123ABC")
def release(
    name: Annotated[str, typer.Argument(help="A phone as `mnn-farm devices` names it, or its id.")], adb: Adb = None
) -> None:
    """Let a held or quarantined phone take part again."""
    health = HealthStore()
    # A phone that was called so and is held is meant, whether adb lists it now or not.
    held = [phone_id for phone_id in _known(health, name) if health.held(phone_id, utc_now()) is not None]
    phone_id = held[0] if len(held) == 1 else _find(health, name, adb)
    was = health.release(phone_id)
    say(f"{name} was not held" if was is None else f"{name} is released; it was {was.text}")


@app.command("history", epilog="Example: mnn-farm devices history --json")
def history(
    name: Annotated[str | None, typer.Argument(help="A phone, by name or id (default: all).")] = None,
    as_json: Json = False,
) -> None:
    """Show what failed on phones and on ports, as far as this computer saw it."""
    from harness.fleet import show

    health = HealthStore()
    names = health.names()
    ids = list(names) if name is None else _known(health, name)
    if name is not None and not ids:
        known = ", ".join(sorted(names.values())) or "none"
        raise ConfigError(f"no phone called {name} is known here", remedy=f"those that are: {known}")
    failures = [failure for failure in health.all_failures() if failure.phone_id in ids]
    now = utc_now()
    holds = {phone_id: health.held(phone_id, now) for phone_id in ids}
    if as_json:
        print_json(show.history_as_json(failures, names, holds))
        return
    for phone_id, hold in holds.items():
        if hold is not None:
            say(f"{names[phone_id]} is {hold.text}")
    if not failures:
        say("no failure is on record")
        return
    _print(show.history_table(failures))
    _print(show.ports_table(failures))


def _print(table: RenderableType) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=max(console.width, _NARROWEST))
    console.print(table)


def _known(health: HealthStore, name: str) -> list[str]:
    """Return the ids of phones that were last called ``name``, or have this id."""
    return [phone_id for phone_id, called in health.names().items() if name in (phone_id, called)]


def _find(health: HealthStore, name: str, adb: str | None) -> str:
    """Return the id of the phone that adb lists as ``name``; of one that cannot be asked, as it was last known.

    Raises:
        ConfigError: nobody is called so, or several are.
        FarmError: the phone cannot be asked who it is, and is not known here.
    """
    from harness.fleet.look import meet_for_id
    from harness.fleet.servers import list_phones, read_servers

    known = _known(health, name)
    if name in known:
        return name
    listing = list_phones(read_servers(adb))
    phones = [phone for phone in listing.phones if name in (phone.name, phone.info.serial)]
    if len(phones) > 1:
        raise ConfigError(f"{len(phones)} phones have the serial {name}", remedy=_one_of(phones))
    if phones:
        try:
            return meet_for_id(phones[0]).id
        except FarmError:
            if len(known) != 1:
                raise
    if len(known) == 1:
        return known[0]
    raise ConfigError(f"no phone is called {name}", remedy=_one_of(listing.phones))


def _one_of(phones: Iterable[Listed]) -> str:
    from harness.fleet.choose import describe

    return f"name one of these: {', '.join(map(describe, phones)) or 'adb lists none'}"
