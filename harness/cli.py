"""``mnn-farm``: what is done beside a pytest run. Exit 0 fine, 1 the thing asked about is bad, 2 wrong usage, 3 ours.

Only verbs that work are here; each has an example in its help.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import Annotated

import typer

import harness
from harness.commands import bins, clean, devices, diagnose, diff, doctor, judge, models, reports, triage
from harness.commands.output import say, tell
from harness.core.errors import BundleError, ConfigError, FarmError
from harness.selfcheck.cli import EPILOG as SELFCHECK_EXAMPLE
from harness.selfcheck.cli import selfcheck

app = typer.Typer(
    name="mnn-farm",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Benchmarks MNN language models on phones. The benchmark itself is `pytest --devices all`.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(devices.app, name="devices")
app.add_typer(models.app, name="models")
app.add_typer(bins.app, name="bins")
app.command("doctor", epilog="Example: mnn-farm doctor")(doctor.doctor)
app.command("report", epilog="Example: mnn-farm report reports/20260101-120000-ab12 --out report.html")(reports.report)
app.command("reasons", epilog="Example: mnn-farm reasons")(reports.reasons)
app.command("judge", epilog=judge.EPILOG)(judge.judge)
app.command("diagnose", epilog=diagnose.EPILOG)(diagnose.diagnose)
app.command("triage", epilog=triage.EPILOG)(triage.triage_files)
app.command("diff", epilog=diff.EPILOG)(diff.diff)
app.command("clean", epilog=clean.EPILOG)(clean.clean)
app.command("selfcheck", epilog=SELFCHECK_EXAMPLE)(selfcheck)
# Providers of phones bring verbs of their own, e.g. `mnn-farm virtual`.
for _point in sorted(entry_points(group="mnn_farm.commands"), key=lambda point: point.name):
    app.add_typer(_point.load(), name=_point.name)


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
