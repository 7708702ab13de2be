"""``mnn-farm lab``: a scheduler, hosts with phones, one run over all of them. Everything about it: ``docs/lab.md``."""

from __future__ import annotations

import platform
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.commands.output import Adb, Json, print_json, say, tell
from harness.core.errors import ConfigError

if TYPE_CHECKING:
    from harness.lab.address import Address
    from harness.lab.control import Told
    from harness.lab.request import Request
    from harness.lab.start import Begun, Present
    from harness.store.runfolder import RunFolder

app = typer.Typer(
    no_args_is_help=True,
    help="A whole lab on Dask: a scheduler, hosts with phones, one run over all of them. Needs the extra `lab`.",
    epilog="Example: mnn-farm lab run --scheduler tls://lab-server:8786 --tls keys --plan quick",
)

Scheduler = Annotated[
    str, typer.Option("--scheduler", metavar="ADDRESS", help="tls://HOST:PORT, or tcp://127.0.0.1:PORT here alone.")
]
Tls = Annotated[
    Path | None,
    typer.Option("--tls", metavar="DIR", help="Folder with ca.pem, cert.pem and key.pem (docs/lab.md makes them)."),
]


@app.command("scheduler", epilog="Example: mnn-farm lab scheduler --listen tls://0.0.0.0:8786 --tls keys")
def scheduler(
    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="tls://HOST:PORT, or tcp://127.0.0.1:PORT.")
    ] = "tcp://127.0.0.1:8786",
    tls: Tls = None,
) -> None:
    """Be the lab's scheduler until Ctrl-C, SIGTERM or `mnn-farm lab stop`."""
    from harness.lab.address import read_address
    from harness.lab.engine import schedule

    schedule(read_address(listen, tls, "--listen"), tell)


@app.command("host", epilog="Example: mnn-farm lab host --scheduler tls://lab-server:8786 --tls keys --devices all")
def host(
    scheduler: Scheduler,
    devices: Annotated[str, typer.Option(metavar="SPEC[,SPEC]", help="Which phones, as for pytest.")] = "all",
    adb: Adb = None,
    tls: Tls = None,
    port: Annotated[int, typer.Option(help="The scheduler connects here (default: any free port).", min=0)] = 0,
    name: Annotated[str, typer.Option(help="What this host is called (default: the computer's name).")] = "",
    max_parallel: Annotated[
        int | None, typer.Option(metavar="N", help="Measure on at most N phones at a time (default: all).", min=1)
    ] = None,
    push_slots: Annotated[
        int, typer.Option(metavar="N", help="Send to at most N phones of one USB hub at a time.", min=1)
    ] = 1,
) -> None:
    """Serve this computer's phones to the lab until Ctrl-C or SIGTERM; then leave them as they were found.

    Phones are taken for a run's cells only; meanwhile anybody else may use them.
    """
    from harness.bench.phone import Terms
    from harness.core.resources import cache_dir
    from harness.fleet.opening import open_fleet
    from harness.fleet.servers import read_servers
    from harness.fleet.words import read_words
    from harness.lab.address import read_address
    from harness.lab.engine import dask_here, serve
    from harness.lab.host import Host

    address = read_address(scheduler, tls)
    words, servers = read_words(devices), read_servers(adb)
    dask_here()
    fleet = open_fleet(words, lambda phone, what: tell(f"  {phone}: {what}"), servers=servers, terms=Terms(purpose=""))
    try:
        for left in fleet.left_out:
            tell(f"{left.name} was left out: {left.reason}{f' ({left.remedy})' if left.remedy else ''}")
        if not fleet.phones:
            raise ConfigError("no phone of this host can be used", remedy="look at: mnn-farm devices")
        lab_host = Host(
            name or platform.node(), fleet, cache_dir("lab"), max_parallel=max_parallel, push_slots=push_slots
        )
        serve(address, lab_host, tell, port)
    finally:
        fleet.close()


@app.command("status", epilog="Example: mnn-farm lab status --scheduler tcp://127.0.0.1:8786 --json")
def status(scheduler: Scheduler, tls: Tls = None, as_json: Json = False) -> None:
    """Show hosts and phones, what each is doing, and how many cells are left to it."""
    from harness.lab.address import read_address
    from harness.lab.client import Lab

    with Lab.connect(read_address(scheduler, tls)) as lab:
        rows = _rows(lab.statuses())
    if as_json:
        print_json({"hosts": rows})
        return
    for row in rows:
        say(f"host {row['host']}, {len(row['phones'])} phones{': ' + row['problem'] if row['problem'] else ''}")
        for phone in row["phones"]:
            left = f", {phone['cells_left']} cells left of run {', '.join(phone['runs'])}" if phone["runs"] else ""
            what = f"{phone['model'] or 'unknown model'}, {phone['soc'] or 'unknown chip'}, {phone['tier']} tier"
            say(f"  {phone['name']}  {what}: {phone['doing']}{left}")
        for left_out in row["left_out"]:
            say(f"  left out: {left_out['name']}: {left_out['reason']}")
    if not rows:
        say("no host is in the lab; start one: mnn-farm lab host --scheduler …")


def _rows(statuses: list[tuple[Any, list[dict[str, Any]] | str]]) -> list[dict[str, Any]]:
    return [
        {
            "host": told.host,
            "version": told.version,
            "phones": [] if isinstance(phones, str) else phones,
            "problem": phones if isinstance(phones, str) else "",
            "left_out": list(told.left_out),
        }
        for told, phones in statuses
    ]


@app.command("stop", epilog="Example: mnn-farm lab stop --scheduler tcp://127.0.0.1:8786")
def stop(scheduler: Scheduler, tls: Tls = None) -> None:
    """End all hosts in order, each leaving its phones as they were found, then the scheduler."""
    from harness.lab.address import read_address
    from harness.lab.client import Lab

    with Lab.connect(read_address(scheduler, tls)) as lab:
        hosts = lab.stop()
    say(f"the lab is down: {hosts} hosts and the scheduler")


@app.command(
    "run",
    epilog="Example: mnn-farm lab run --scheduler tls://lab-server:8786 --tls keys --plan quick --model tiny-llama",
)
def run(
    scheduler: Scheduler,
    tls: Tls = None,
    plan: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="Which cells (default: quick).")] = None,
    model: Annotated[list[str] | None, typer.Option(metavar="DIR|NAME", help="A model; again for more.")] = None,
    bundle: Annotated[str | None, typer.Option(metavar="NAME|DIR", help="Device binaries.")] = None,
    golden: Annotated[str | None, typer.Option(metavar="FILE|NAME", help="Questions with expected patterns.")] = None,
    run_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the results go (default: reports/).")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Finish the run in --run-dir.")] = False,
    wait_lease: Annotated[float, typer.Option(metavar="S", help="Patience with phones in use.", min=0)] = 0.0,
) -> None:
    """Measure a plan's cells on all phones of the lab; records and raw output come into one run folder here.

    Exit status 0: every cell has its final record and none failed; 1: some have not, or failed.
    """
    from harness.lab.address import read_address
    from harness.lab.client import Lab
    from harness.lab.control import Control
    from harness.lab.request import read_request
    from harness.lab.start import begin, go_on, open_again, present
    from harness.store.runfolder import RunFolder

    address: Address = read_address(scheduler, tls)
    again: RunFolder | None = open_again(run_dir) if resume else None
    if again is None and run_dir is not None:
        RunFolder.check_free(run_dir)
    request: Request = read_request(plan, model or [], bundle, golden, again.read_info() if again is not None else None)
    _end_in_order()
    command = [Path(sys.argv[0]).name, *sys.argv[1:]]
    with Lab.connect(address) as lab:
        there: Present = present(lab.hosts())
        if again is not None:
            begun: Begun = go_on(request, there, again, command)
        else:
            begun = begin(request, there, run_dir, Path.cwd(), command)
        tell(f"run {begun.info.run_id}: {len(begun.cells)} cells on {len(there.members)} phones")
        try:
            told = Control(lab, request, begun, there, tell, wait_lease).run()
        finally:
            _write_reports(begun.folder)
    raise typer.Exit(_tell_the_end(begun, there, told))


def _end_in_order() -> None:
    """Make SIGTERM the same orderly end as Ctrl-C; after that only a second Ctrl-C cuts it short."""

    def end(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _write_reports(folder: RunFolder) -> None:
    from harness.report.frames import write_csv
    from harness.report.html import write_report
    from harness.report.junit import write_junit
    from harness.report.results_json import write_results_json

    try:
        for write in (write_report, write_csv, write_results_json, write_junit):
            write(folder.path)
    except OSError as error:
        tell(f"the report could not be written ({error.strerror or error}); try: mnn-farm report {folder.path}")


def _tell_the_end(begun: Begun, there: Present, told: Told) -> int:
    """Print what came of a run and return the exit status."""
    from harness.report.summary import headline

    records = begun.folder.latest()
    for left in there.left_out:
        say(f"left out: {left.name}: {left.reason}{f' ({left.remedy})' if left.remedy else ''}")
    for problem in told.problems:
        say(problem)
    say(headline(records, len(begun.info.fleet)))
    if told.moved:
        say(f"{told.moved} cells of phones that were away were done by others of the same model")
    if told.left:
        say(f"not finished: {told.left} cells; to go on: the same with --run-dir {begun.folder.path} --resume")
    say(f"report:  {begun.folder.path / 'report.html'}")
    bad = told.left or told.stopped or any(record.why is not None and record.why.exit_status for record in records)
    return 1 if bad else 0
