"""The pytest plugin: ``pytest --devices all``. Without ``--devices`` it does nothing at all.

The controlling process resolves the fleet once, before collection; pytest-xdist runs one worker a phone; each worker
appends its records to the run folder itself. This module is imported by every pytest of an environment that has
mnn-farm installed, so what a run needs is imported when a run begins.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Iterable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.core.errors import ConfigError, FarmError, HostError
from harness.core.procs import die_with_parent
from harness.core.reasons import ExitStatus, Outcome
from harness.core.resources import data_root
from harness.plugin import options
from harness.plugin.stopping import stop_in_order

if TYPE_CHECKING:
    from harness.plugin.bound import BoundCell, WorkerRun
    from harness.plugin.controller import Controller
    from harness.plugin.verdicts import CellFailure
    from harness.plugin.worker import Worker
    from harness.report.slo import Missed
    from harness.store.head import LeftOut
from harness.store.schema import CellRecord

_CONTROLLER: pytest.StashKey[Controller] = pytest.StashKey()
_WORKER: pytest.StashKey[Worker] = pytest.StashKey()
# Why a cell fails that is ok or unsupported by its record alone: it was better in the run compared with.
_WORSE: pytest.StashKey[CellFailure] = pytest.StashKey()
_WORKER_INPUT = "mnn_farm"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register our options."""
    options.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | pytest.ExitCode | None:
    """Prepare the run before anything is collected; return an exit status to end here."""
    if hasattr(config, "workerinput") or config.option.help or config.option.version:
        return None
    if config.getoption("--devices") is None:
        flag = options.needs_devices(config)
        if flag is not None:
            raise pytest.UsageError(f"{flag} means nothing without --devices: say which phones, e.g. --devices all")
        return None
    given = list(config.invocation_params.args)
    joined = options.join_values(given)
    if joined != given:
        return pytest.main(joined, plugins=config.invocation_params.plugins)
    stop_in_order(config, heed_second_interrupt=True)
    try:
        return _prepare(config)
    except KeyboardInterrupt:
        sys.stderr.write("mnn-farm: stopped before any cell began\n")
        return pytest.ExitCode.INTERRUPTED
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from error
    except HostError as error:
        sys.stderr.write(f"mnn-farm: no phone can be used: {error}\n")
        return int(ExitStatus.NO_PHONE)
    except FarmError as error:
        sys.stderr.write(f"mnn-farm: {error}\n")
        return int(ExitStatus.INFRA) if error.infra else pytest.ExitCode.INTERNAL_ERROR


def _prepare(config: pytest.Config) -> int | None:
    from harness.bench.phone import Terms
    from harness.fleet.opening import open_fleet
    from harness.fleet.servers import read_servers
    from harness.fleet.words import read_words
    from harness.plugin.resume import Begun
    from harness.plugin.run import begin, command_line, describe_dry_run
    from harness.store.runfolder import RunFolder

    again = options.read_again(config)
    begun = Begun.open(again) if again is not None else None
    request = options.read_request(config, datetime.now(timezone.utc), begun.head if begun is not None else None)
    words = read_words(config.getoption("--devices"))
    servers = read_servers(config.getoption("--adb"))
    run_dir = Path(config.getoption("--run-dir")) if config.getoption("--run-dir") else None
    if begun is not None:
        begun.check(request)
    elif run_dir is not None:
        RunFolder.check_free(run_dir)

    def say(phone: str, what: str) -> None:
        if config.option.verbose >= 0:
            sys.stderr.write(f"  {phone}: {what}\n")

    purpose = "" if config.getoption("--dry-run-plan") else f"plan {request.plan_name}"
    floor_pct = request.plan.prepare.battery_floor_pct
    terms = Terms(purpose, request.wait_lease_s, request.plan.recovery, floor_pct)
    fleet = open_fleet(words, say, servers=servers, terms=terms)
    config.add_cleanup(fleet.close)
    if config.getoption("--strict-health") and fleet.unusable:
        _name_left_out(fleet.unusable)
        sys.stderr.write("mnn-farm: --strict-health: not every chosen phone can be used; nothing was run\n")
        return int(ExitStatus.INFRA)
    if not fleet.phones:
        _name_left_out(fleet.left_out)
        found = "of the chosen phones none can be used" if fleet.left_out else "adb lists no phone"
        sys.stderr.write(f"mnn-farm: {found}; connect one, or try without: pytest --devices virtual:2\n")
        return int(ExitStatus.NO_PHONE)
    if config.getoption("--dry-run-plan"):
        _name_left_out(fleet.left_out)
        for line in describe_dry_run(request, fleet.phones, begun.is_left if begun is not None else lambda _: True):
            sys.stdout.write(f"{line}\n")
        return int(ExitStatus.OK)
    if begun is not None:
        run = begun.go_on(request, fleet, command_line())
    else:
        run = begin(request, fleet, run_dir, config.invocation_params.dir, command_line())
    run.compare()
    from harness.plugin.controller import Controller  # here: it brings the report, which a dry run does not need

    config.stash[_CONTROLLER] = Controller(run)
    _point_at_device_tests(config)
    # Skipped cells have their line and reason in our own table.
    config.option.reportchars = config.option.reportchars.replace("s", "")
    _set_up_workers(config, run.places)
    return None


def _name_left_out(phones: Iterable[LeftOut]) -> None:
    for left in phones:
        remedy, code = f" ({left.remedy})" if left.remedy else "", f" [{left.code}]" if left.code else ""
        sys.stderr.write(f"mnn-farm: {left.name} was left out: {left.reason}{remedy}{code}\n")


def _point_at_device_tests(config: pytest.Config) -> None:
    """Without paths of the user's own, run what runs on phones, and nothing of the self-test."""
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(data_root() / "tests" / "device")]


def _set_up_workers(config: pytest.Config, places: int) -> None:
    """Ask pytest-xdist for one worker a place; ``-n 0`` and ``--pdb`` keep everything in this process.

    So does a run that was resumed and has nothing left to do.
    """
    option = config.option
    alone = not places or option.usepdb or option.collectonly or getattr(option, "numprocesses", None) == 0
    if not alone:
        option.tx = [_worker_spec(config)] * places
        option.dist = "load"


def _worker_spec(config: pytest.Config) -> str:
    """Return how pytest-xdist starts a worker: as a copy of a process that has imported everything, or afresh."""
    if not sys.platform.startswith("linux"):
        return "popen"
    from harness.plugin.forkserver import ForkServer

    server = ForkServer()
    config.add_cleanup(server.stop)
    return server.spec


def pytest_configure(config: pytest.Config) -> None:
    """Register markers; in a worker, take over what the controller prepared."""
    for line in (
        "infra: the lab, not the product, is at fault",
        "slo: the cell is ok, but its tier promises more",
    ):
        config.addinivalue_line("markers", line)
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None and _WORKER_INPUT in workerinput:
        from harness.plugin.bound import WorkerRun

        die_with_parent()
        stop_in_order(config, heed_second_interrupt=False)
        _become_worker(config, WorkerRun.load(workerinput[_WORKER_INPUT]))
    controller = config.stash.get(_CONTROLLER, None)
    if controller is not None:
        if config.option.dist == "no":
            _become_worker(config, controller.run.worker_run(config.args))
        config.pluginmanager.register(controller, "mnn_farm_controller")


def _become_worker(config: pytest.Config, worker_run: WorkerRun) -> None:
    from harness.plugin.progress import log_to
    from harness.plugin.worker import Worker

    handler = log_to(worker_run.context.run_dir / "log.txt")
    config.add_cleanup(handler.close)
    config.args = list(worker_run.test_paths)
    config.stash[_WORKER] = Worker(worker_run)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand a worker of pytest-xdist what it needs."""
    controller = node.config.stash.get(_CONTROLLER, None)
    if controller is not None:
        node.workerinput[_WORKER_INPUT] = controller.run.worker_run(node.config.args).dump()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes ``cell`` (or what is made from it) one item per phone and cell."""
    if "cell" not in metafunc.fixturenames:
        return
    worker = metafunc.config.stash.get(_WORKER, None)
    if worker is None:
        mark = pytest.mark.skip(reason="needs phones: run pytest with --devices")
        metafunc.parametrize("cell", [pytest.param(None, marks=mark, id="no-devices")])
        return
    cells = worker.run.cells
    if cells:
        metafunc.parametrize("cell", cells, ids=[bound.test_id for bound in cells])
    else:
        metafunc.parametrize("cell", [None], ids=["nothing-left"])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where an earlier start left no cell to do, collect no test that takes one; where phones wait, what is between."""
    worker = config.stash.get(_WORKER, None)
    if worker is None:
        return
    if worker.run.cells:
        if worker.run.phone_after_phone and hasattr(config, "workerinput"):
            from harness.plugin.leaving import LeavePhone

            items.append(LeavePhone.of(session, worker.close))
        return
    idle = [item for item in items if "cell" in getattr(item, "fixturenames", ())]
    if idle:
        config.hook.pytest_deselected(items=idle)
        items[:] = [item for item in items if item not in idle]


@pytest.fixture
def cell_record(cell: BoundCell, request: pytest.FixtureRequest) -> CellRecord:
    """Measure ``cell`` on its phone and return the record, already appended to the run folder.

    Faults of configuration or harness end here, so that pytest reports an error and not a failure.
    """
    from harness.plugin.verdicts import CellFailure, long_message, outcome_of, regression_failure, short_message

    worker = request.config.stash[_WORKER]
    try:
        record = worker.measure(cell)
    except FarmError as error:
        raise CellFailure(f"{error.reason.code} on {cell.phone}: {error}", str(error)) from error
    finally:
        request.session.shouldstop = worker.stopped or request.session.shouldstop
    node = request.node
    properties = {
        "phone": record.phone.name,
        "cell_id": record.cell_id,
        "verdict": record.verdict.value,
        "reason": record.reason,
        "fault": record.fault.value if record.fault is not None else None,
    }
    node.user_properties += [(key, value) for key, value in properties.items() if value is not None]
    if record.why is not None and record.fault is not None and record.fault.value == "infra":
        node.add_marker(pytest.mark.infra)
    worse = worker.run.baseline.regression(record)
    if worse is not None:
        node.stash[_WORSE] = regression_failure(record, *worse)
    if outcome_of(record) is Outcome.ERROR:
        raise CellFailure(short_message(record), long_message(record))
    return record


@pytest.fixture
def missed_slo(cell_record: CellRecord, request: pytest.FixtureRequest) -> tuple[Missed, ...]:
    """What the tier of the phone promises and ``cell_record`` does not keep; none where the plan judges no SLO.

    A cell is held to it where it has the SLO's prompt length and nothing before the prompt.
    """
    from harness.plugin.verdicts import promised
    from harness.report.slo import missed_of

    rules = promised(request.config.stash[_WORKER].run.context.plan)
    missed = () if rules is None else missed_of(cell_record, rules)
    if missed:
        request.node.add_marker(pytest.mark.slo)
        request.node.user_properties.append(("slo", "; ".join(each.words for each in missed)))
    return missed


def judge(record: CellRecord, missed: Sequence[Missed] = ()) -> None:
    """Make pytest say what became of a record: pass, skip with the reason, or fail with what a person needs.

    ``missed`` is what it misses of its tier's SLO, from the fixture ``missed_slo``: that fails an ``ok`` cell.
    """
    from harness.plugin.verdicts import CellFailure, long_message, outcome_of, short_message, slo_failure

    outcome = outcome_of(record)
    if outcome is Outcome.SKIPPED:
        pytest.skip(short_message(record))
    if outcome is Outcome.FAILED:
        raise CellFailure(short_message(record), long_message(record))
    if missed:
        raise slo_failure(record, missed)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Between two phones leave the first; that is no test, so nothing is reported of it."""
    if item.config.stash.get(_WORKER, None) is None:
        return None
    from harness.plugin.leaving import LeavePhone

    if not isinstance(item, LeavePhone):
        return None
    item.runtest()
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a cell that was ok in the run compared with and is unsupported or slower now, whatever its test says."""
    worse = item.stash.get(_WORSE, None)
    if worse is None:
        return (yield)
    with contextlib.suppress(pytest.skip.Exception):
        yield
    raise worse


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a cell's failure as what a person needs, without a traceback of ours."""
    from harness.plugin.verdicts import CellFailure, as_report

    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, CellFailure):
        worker = item.config.stash.get(_WORKER, None)
        run_dir = worker.run.context.run_dir if worker is not None else None
        report.longrepr = as_report(call.excinfo.value, item, run_dir)
        report.sections.clear()  # the log is in the run folder; below every failed cell it only hides the cause
    return report


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """A worker leaves its phone; after the last one the controller makes report, summary files, exit status."""
    worker = session.config.stash.get(_WORKER, None)
    controller = session.config.stash.get(_CONTROLLER, None)
    if worker is not None:
        worker.close()
        if controller is not None:
            controller.stopped = worker.stopped
        else:
            from harness.plugin.worker import WORKER_OUTPUT

            session.config.workeroutput[WORKER_OUTPUT] = worker.stopped  # type: ignore[attr-defined]
    yield
    if controller is not None:
        session.exitstatus = controller.finish(int(session.exitstatus))
