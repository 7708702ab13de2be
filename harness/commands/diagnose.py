"""``mnn-farm diagnose``: climbs on one phone until a layer breaks; says which, why, what to do and what works."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from harness.commands.output import Adb, Json, print_json, say, tell

_INTERRUPTED = 130
# Lines longer than that are hard to read, however wide a terminal is.
_WIDEST = 110


class Live:
    """What happens meanwhile, on stderr: one line that is written over on a terminal, else a line each."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._rung = self._last = ""

    def begin(self, rung: str) -> None:
        """A rung begins."""
        self._rung, self._last = rung.partition(":")[0], ""
        self._show(f"… {rung}")

    def say(self, what: str) -> None:
        """Something happens in it."""
        if what != self._last:
            self._last = what
            self._show(f"… {self._rung}: {what}" if self._rung else f"… {what}")

    def over(self, tell_how: Callable[[], None]) -> None:
        """It is over, and is told of by a line that stays. What happens then belongs to no rung."""
        self._rung = ""
        self.clear()
        tell_how()

    def clear(self) -> None:
        """Take the line away."""
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _show(self, text: str) -> None:
        if not self._terminal:
            tell(text)
            return
        width = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r\x1b[K{text[: width - 1]}")
        sys.stderr.flush()


def width_of_answer() -> int:
    """Return how many columns the answer may take: those of the terminal, in a pipe as many as read well."""
    return min(_WIDEST, shutil.get_terminal_size((_WIDEST, 0)).columns) if sys.stdout.isatty() else _WIDEST


def diagnose(
    device: Annotated[str, typer.Option(help="A serial, or any word of pytest's --devices that means one phone.")],
    model: Annotated[str, typer.Option(help="The model: a folder with config.json, or a known name.")],
    bundle: Annotated[
        str | None, typer.Option(help="Device binaries: a folder or a name (default: the first here that fits).")
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(help="A GPU backend that has to work: opencl, vulkan; again for more (default: what is there)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the long prompt and generating on and on.")] = False,
    no_workaround: Annotated[bool, typer.Option("--no-workaround", help="Do not look for settings that work.")] = False,
    sustain: Annotated[
        float, typer.Option(metavar="SECONDS", min=2, max=3600, help="How long the last rung generates.")
    ] = 20.0,
    patience: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=2, max=3600, help="The least time after which a run counts as hanging."),
    ] = 20.0,
    wait_lease: Annotated[
        float, typer.Option("--wait-lease", metavar="SECONDS", min=0, help="Wait for whoever has the phone.")
    ] = 0.0,
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", help="Where records and raw output go (default: reports/diagnose-…).")
    ] = None,
    as_json: Json = False,
    adb: Adb = None,
) -> None:
    """Climb from a phone that answers to one that generates for minutes, a thing more a rung, until a layer breaks.

    Then the nearest settings that work are looked for. What this computer can find out by itself comes first. The
    phone is left as it was found, on Ctrl-C too.

    Exit status 0: all rungs hold; 1: one broke; 2: wrong usage; 3: mnn-farm or this computer failed; 130: Ctrl-C.
    """
    # Here: it would triple the start of every other verb.
    from harness.core.ids import new_run_id
    from harness.diagnose import told
    from harness.diagnose.asked import Request, Sizes, choose_bundles, read_backends
    from harness.diagnose.ladder import Watch
    from harness.diagnose.ladder import diagnose as climb_on
    from harness.fleet.servers import read_servers
    from harness.payload.models import find_model
    from harness.store.runfolder import write_atomically

    bundles, problems = choose_bundles(bundle)
    request = Request(
        device=device,
        model=find_model(model),
        model_name=model,
        bundles=bundles,
        bundle_word=bundle,
        bundle_problems=problems,
        backends=read_backends(tuple(backend or ())),
        quick=quick,
        workaround=not no_workaround,
        adb=adb,
        sizes=Sizes(sustain_s=sustain, patience_s=patience, wait_lease_s=wait_lease),
    )
    run_id = f"diagnose-{new_run_id()}"
    folder = run_dir or Path("reports") / run_id
    live = Live()
    line = tell if as_json else say
    watch = Watch(
        began=lambda rung: live.begin(f"{rung.name}: {rung.adds}"),
        ended=lambda rung, outcome: live.over(lambda: line(told.rung_line(rung, outcome))),
        say=live.say,
    )
    command = [Path(sys.argv[0]).name, *sys.argv[1:]]
    # Whoever supervises ends it in the same order as a person does.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        found = climb_on(request, run_id, folder, command, watch, read_servers(adb))
    except KeyboardInterrupt:
        live.over(lambda: tell("Interrupted; the phone is left as it was found."))
        raise typer.Exit(_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
        live.clear()
    document = told.as_json(found)
    write_atomically(folder / "diagnosis.json", json.dumps(document, indent=1).encode() + b"\n")
    if as_json:
        print_json(document)
    else:
        say("")
        for text in told.wrapped(told.result_lines(found), width_of_answer()):
            say(text)
    raise typer.Exit(found.exit_status)
