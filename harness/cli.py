"""``mnn-farm``: what is done beside a pytest run. Exit 0 fine, 1 the thing asked about is bad, 2 wrong usage, 3 ours.

Only verbs that work are here; each has an example in its help.
"""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated

import typer

import harness
from harness.commands.lazy import Verb, lazy_group
from harness.commands.output import say, tell
from harness.core.errors import BundleError, ConfigError, FarmError

VERBS = (
    Verb(
        "devices",
        "harness.commands.devices:app",
        "Phones that adb lists: usable or why not; hold, release, history.",
    ),
    Verb(
        "models",
        "harness.commands.models:app",
        "Models: list, fetch, import, verify; from ONNX: convert, check.",
    ),
    Verb(
        "bins",
        "harness.commands.bins:app",
        "Device binaries: inspect, import, list, build.",
    ),
    Verb(
        "doctor",
        "harness.commands.doctor:doctor",
        "Check this computer: adb, keys, USB access, disk, Python, MNN, compiler, sandbox. Each finding has its fix.",
        "Example: mnn-farm doctor",
    ),
    Verb(
        "report",
        "harness.commands.reports:report",
        "Make report.html and its data again from a run folder alone; of several, the history of their figures.",
        "Example: mnn-farm report reports/2026* --out history.html",
    ),
    Verb(
        "tiers",
        "harness.commands.tiers:tiers",
        "Say which model and configuration is proven to keep each tier's SLO, over one or several runs.",
        "Example: mnn-farm tiers reports/full-night reports/soak-night -o tiers.json",
    ),
    Verb(
        "compare",
        "harness.commands.compare:compare",
        "Compare two runs cell by cell: faster, slower, same, or cannot tell and how many more repeats it takes.",
        "Example: mnn-farm compare reports/BASE reports/NEW --verify --out change.md",
    ),
    Verb(
        "merge",
        "harness.commands.merge:merge_runs",
        "Make one run folder of several, with its report; the others stay as they are.",
        "Example: mnn-farm merge reports/lab1-night reports/lab2-night -o reports/night",
    ),
    Verb(
        "reasons",
        "harness.commands.reports:reasons",
        "Print the table of reasons: verdict, fault, pytest outcome, exit status.",
        "Example: mnn-farm reasons",
    ),
    Verb(
        "judge",
        "harness.commands.judge:judge",
        "Judge figures of llm_bench, llm_demo, MNNV2Basic and others: each with its verdict, its reason and why.",
        "Example: adb shell ./llm_bench -m m/config.json -a opencl 2>&1 | mnn-farm judge - --backend opencl",
    ),
    Verb(
        "diagnose",
        "harness.commands.diagnose:diagnose",
        "Climb from a phone that answers to one that generates for minutes, a thing more a rung, until a layer breaks.",
        "Example: mnn-farm diagnose --device R5CT30ABCDE --model ./my-model --bundle my-build",
    ),
    Verb(
        "triage",
        "harness.commands.triage:triage_files",
        "Say what logs show: what broke, whose fault it is, the lines that prove it, and what to do. No phone needed.",
        "Example: adb logcat -b all -d | mnn-farm triage - run.log",
    ),
    Verb(
        "crash",
        "harness.commands.crash:crash",
        "Pack all that is known of a failed cell into one zip: logs, crash, facts, hashes, the command, the findings.",
        "Example: mnn-farm crash reports/20260101-120000-ab12 3fa9 --redact",
    ),
    Verb(
        "diff",
        "harness.commands.diff:diff",
        "Say what differs between two phones, or two cells of runs, that could matter; what explains a failure first.",
        "Example: mnn-farm diff reports/RUN#4f3a91 reports/RUN#b02c77",
    ),
    Verb(
        "clean",
        "harness.commands.clean:clean",
        "Take our files off a phone: end our runs, put its settings back, remove our folder and nothing else.",
        "Example: mnn-farm clean --device R58M123ABC --payloads",
    ),
    Verb(
        "lab",
        "harness.commands.lab:app",
        "A whole lab on Dask: a scheduler, hosts with phones, one run over all of them. Needs the extra `lab`.",
    ),
    Verb(
        "selfcheck",
        "harness.selfcheck.cli:selfcheck",
        "Try on one phone all that we assume about phones, and pack a zip to send us. At most ten minutes.",
        "Example: mnn-farm selfcheck --device R5CT30ABCDE --ask-cable",
    ),
)


def _provided() -> tuple[EntryPoint, ...]:
    """Return the verbs that providers of phones bring, e.g. ``mnn-farm virtual``."""
    return tuple(sorted(entry_points(group="mnn_farm.commands"), key=lambda point: point.name))


app = typer.Typer(
    name="mnn-farm",
    cls=lazy_group(VERBS, _provided),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Benchmarks MNN language models on phones. The benchmark itself is `pytest --devices all`.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    if version:
        say(f"mnn-farm {harness.__version__}")
        raise typer.Exit(0)


def main() -> None:
    """Run the command line; an error of ours is one sentence on stderr, a traceback only with ``--debug``."""
    try:
        app()
    except FarmError as error:
        if "--debug" in sys.argv:
            raise
        tell(f"mnn-farm: {error}")
        sys.exit(_status(error))


def _status(error: FarmError) -> int:
    if isinstance(error, BundleError):
        return 1
    return 2 if isinstance(error, ConfigError) else 3


if __name__ == "__main__":
    main()
