"""The controlling side of pytest's hooks: scheduling, live display, crashed workers, summary, report, exit status."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from typing import Any

import pytest
from rich.console import Console

from harness.bench.lease import Keeper
from harness.bench.session import PhoneSession
from harness.core.errors import FarmError
from harness.core.reasons import Reason
from harness.plan.tiers import load_tier_rules
from harness.plugin.ab import compared, counting, write_ab
from harness.plugin.ab import lines_of as ab_lines
from harness.plugin.compared import news_of_run, told_of_run
from harness.plugin.live import Follower
from harness.plugin.progress import teller
from harness.plugin.run import Run
from harness.plugin.scheduler import PhoneScheduling
from harness.plugin.verdicts import exit_status, promised, tell_outcome
from harness.plugin.worker import WORKER_OUTPUT
from harness.report.artifacts import write_all
from harness.report.expectation_view import slow_lines
from harness.report.meanwhile import in_short
from harness.report.news_file import NewsFile, write_news
from harness.report.news_words import issue_lines, qa_headline, qa_lines
from harness.report.recommend_text import choices_of, lines_of
from harness.report.slo import Missed, missed_of
from harness.report.summary import headline, summary_table
from harness.report.text import plural
from harness.report.tiers import lines_of as tier_lines
from harness.report.tiers import tiers_of
from harness.store.schema import CellRecord

_NARROWEST = 100
# A process whose pipes are closed is dead in a moment.
_REAPED_S = 5.0
# The outcome of a test that is no result, because it is run again; counted by pytest under this word.
_AGAIN = "rerun"


class Controller:
    """Registered as a plugin in the controlling process of a run with ``--devices``.

    Attributes:
        stopped: why workers began no further cell because of this computer; empty while all is well.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._of_test = {bound.test_id: bound for bound in run.cells}
        self._follower: Follower | None = None
        self._attempts_before = Counter(run.before)
        self._again: set[tuple[str, int]] = set()
        self._leases: dict[str, Keeper] = {}
        self._problems: list[str] = []
        self.stopped = ""
        self._promised = promised(run.request.plan)
        self._quiet_letters = False
        self._stopping = False
        self._workers: list[Any] = []
        self._console = Console()
        self._news: NewsFile | None = None

    def phone_of(self, nodeid: str) -> str:
        """Return the phone of a test by its id; tests that name none go to the first that has something to do."""
        bound = self._of_test.get(_parameter(nodeid))
        return bound.phone if bound is not None else self.run.busy_phones[0]

    def pytest_report_header(self) -> list[str]:
        """Say what was found in a run folder that was begun before."""
        return list(self.run.notes)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Get ready to show what the phones do."""
        log = self.run.folder.path / "log.txt"
        log.touch()
        total = Counter(bound.phone for bound in self.run.cells)
        names = [phone.name for phone in self.run.fleet.phones]
        lines = session.config.option.verbose >= 0
        self._quiet_letters = lines or self._console.is_terminal
        waiting = f"waiting for one of {plural(self.run.places, 'place')}" if self.run.phone_after_phone else "waiting"
        self._follower = Follower(log, names, dict(total), self._console, lines=lines, waiting=waiting)
        if self.run.phone_after_phone:
            # Nobody else keeps up the lease on a phone that waits for its place.
            leases = {phone.name: phone.lease for phone in self.run.fleet.phones if phone.lease is not None}
            self._leases = {name: Keeper(leases[name]).__enter__() for name in self.run.busy_phones if name in leases}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin to show it with the first test, when pytest has printed its header; its phone has a worker now."""
        if self._follower is not None:
            self._follower.start()
        self._let_go(self.phone_of(nodeid))

    def _let_go(self, *phones: str) -> None:
        """Leave the leases on phones to others."""
        for name in phones:
            keeper = self._leases.pop(name, None)
            if keeper is not None:
                keeper.__exit__(None, None, None)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> PhoneScheduling:
        """Deal phones to workers."""
        return PhoneScheduling(self.run.places, self.phone_of)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        """Remember each worker."""
        self._workers.append(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Tell a worker that was told to stop from one that died: its cell was not run and gets no record.

        One that stopped by itself, because nothing can be recorded any more, says why.
        """
        self.stopped = self.stopped or getattr(node, "workeroutput", {}).get(WORKER_OUTPUT, "")
        self._stopping = self._stopping or error == "keyboard-interrupt"

    def pytest_keyboard_interrupt(self) -> None:
        """Pass the end on to the workers: they begin no further cell, and have the time to leave their phones."""
        self._stopping = True
        for node in self._workers:
            # xdist knows no way to interrupt a test; without this execnet would do it after five seconds.
            process = getattr(getattr(node.gateway, "_io", None), "popen", None)
            if process is not None:
                process.terminate()

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """A worker died in a test: its cell gets its record here, since nobody else is left to write it.

        Unless it had written it: then it died before it could tell the test's outcome. Else the cell is run again,
        once: what killed two workers in it would kill a third. Turns of two builds are not, since those that follow
        have their place in a row.
        """
        if self._stopping:
            return
        bound = self._of_test.get(_parameter(crashitem))
        phone = next((p for p in self.run.fleet.phones if bound is not None and p.name == bound.phone), None)
        if bound is None or phone is None:
            return
        records = [record for record in self.run.folder.records_of(bound.cell_id) if record.turn == bound.turn]
        if len(records) > self._attempts_before[bound.turn]:
            tell_outcome(report, records[-1], self._missed(records[-1]), self.run.folder.path)
            return
        session = PhoneSession(phone, self.run.context, teller(phone.name))
        died = _how_it_died(report.node)
        error = FarmError(
            f"the worker process that measured this cell {died}",
            remedy="see what ended it (the kernel's log tells of memory that ran out) and finish with --resume",
            reason=Reason.HARNESS_ERROR,
        )
        try:
            tell_outcome(report, session.record_failure(bound.cell, error, begun=True), (), self.run.folder.path)
        except FarmError as unwritten:
            report.longrepr = str(unwritten)
            self._problems.append(str(unwritten))
            return
        self._attempts_before[bound.turn] += 1
        if bound.pair is None and bound.turn not in self._again:
            self._again.add(bound.turn)
            sched.mark_test_pending(crashitem)
            report.outcome = _AGAIN
            self._problems.append(f"{phone.name}: a worker {died}; the cell that it was in was run again by another")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count finished cells."""
        bound = self._of_test.get(_parameter(report.nodeid))
        if report.when == "teardown" and bound is not None and self._follower is not None:
            self._follower.finished(bound.phone)

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Keep pytest's letters out of the live display; outcomes are still counted, failures still shown."""
        if report.outcome == _AGAIN:
            return _AGAIN, "", _AGAIN.upper()
        if not self._quiet_letters or (report.passed and report.when != "call"):
            return None
        category = "error" if report.failed and report.when != "call" else report.outcome
        return category, "", category.upper()

    def finish(self, pytest_status: int) -> int:
        """Write what is made from the records and return the run's exit status."""
        if self._follower is not None:
            self._follower.stop()
        self._let_go(*list(self._leases))
        records = self.run.folder.latest()
        news = news_of_run(self.run, records)
        status = self._status(self._counting(), pytest_status, regressed=bool(news.regressed))
        self._news = told_of_run(self.run, news, status=status, unfinished=self.run.unfinished(self._counting()))
        try:
            if self.run.request.ab is not None:
                write_ab(self.run.folder.path, compared(self.run.request.ab, self.run.folder.records()))
            write_news(self.run.folder.path, self._news)
            write_all(self.run.folder.path)
        except OSError as error:
            self._problems.append(
                f"the report could not be written ({error.strerror or error}); "
                f"try: mnn-farm report {self.run.folder.path}"
            )
        return status

    def _status(self, records: list[CellRecord], pytest_status: int, *, regressed: bool) -> int:
        if pytest_status == pytest.ExitCode.NO_TESTS_COLLECTED and not self.run.cells:
            pytest_status = int(pytest.ExitCode.OK)
        if self.stopped and pytest_status == pytest.ExitCode.INTERRUPTED:
            # By ourselves: whose fault the run's end is decides, not that it ended early.
            return exit_status(records, int(pytest.ExitCode.TESTS_FAILED), beside=[Reason.HOST_DISK_FULL])
        missed = any(map(self._missed, records))
        return exit_status(records, pytest_status, regressed=regressed, slo_missed=missed)

    def _missed(self, record: CellRecord) -> tuple[Missed, ...]:
        return () if self._promised is None else missed_of(record, self._promised)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one line per cell, who was left out, where the report is; last what a person must know at once."""
        records = self._in_order(self.run.folder.latest())
        terminalreporter.section("mnn-farm")
        for line in self._rendered(records, terminalreporter):
            terminalreporter.write_line(line)
        for left in self.run.fleet.left_out:
            remedy = f" ({left.remedy})" if left.remedy else ""
            code = f" [{left.code}]" if left.code else ""
            terminalreporter.write_line(f"left out: {left.name}: {left.reason}{remedy}{code}")
        for note in self.run.notes:
            terminalreporter.write_line(note)
        tiers = tiers_of(self.run.folder.read_info(), records, load_tier_rules())
        for line in [*tier_lines(tiers), *lines_of(choices_of(records, self.run.request.plan_values))]:
            terminalreporter.write_line(line)
        for line in (*slow_lines(records), *in_short(list(self.run.folder.records()), records)):
            terminalreporter.write_line(line, yellow=True)
        self._tell_of_builds(terminalreporter)
        unfinished = self.run.unfinished(self._counting())
        if unfinished:
            terminalreporter.write_line(
                f"not finished on these phones: {plural(unfinished, 'cell')}; "
                f"to go on, the same --devices with --run-dir {self.run.folder.path} --resume"
            )
        if (self.run.folder.path / "report.html").exists():
            terminalreporter.write_line(f"report:  {self.run.folder.path / 'report.html'}")
        for problem in self._problems:
            terminalreporter.write_line(problem, red=True)
        terminalreporter.write_line(headline(records, len(self.run.members)), bold=True)
        if self._news is not None:
            self._write_news(self._news, records, terminalreporter)

    def _write_news(self, news: NewsFile, records: list[CellRecord], reporter: pytest.TerminalReporter) -> None:
        """Print red or green and whose fault, then what is wrong, worst first."""
        for line in issue_lines(news):
            reporter.write_line(line)
        said = qa_headline(news, records)
        reporter.write_line(said.text, bold=True, **{said.colour: True})
        for line in qa_lines(news, records):
            reporter.write_line(line)

    def _tell_of_builds(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what the second of two builds changed."""
        if self.run.request.ab is not None:
            comparison = compared(self.run.request.ab, self.run.folder.records())
            for line in ab_lines(comparison, self._new_console(terminalreporter)):
                terminalreporter.write_line(line)

    def _in_order(self, records: list[CellRecord]) -> list[CellRecord]:
        """Return the records phone by phone, each phone's in the order of the plan."""
        members, planned = self.run.members, [bound.cell_id for bound in self.run.planned]
        phones = {phone_id: number for number, phone_id in enumerate(members)}
        cells = {cell_id: number for number, cell_id in enumerate(planned)}

        def place(record: CellRecord) -> tuple[int, int]:
            return phones.get(record.phone.id, len(members)), cells.get(record.cell_id, len(planned))

        return sorted(records, key=place)

    def _rendered(self, records: list[CellRecord], terminalreporter: pytest.TerminalReporter) -> list[str]:
        """Render the table with rich into lines, so that it takes the way of pytest's own output."""
        console = self._new_console(terminalreporter)
        with console.capture() as capture:
            console.print(summary_table(records))
        return capture.get().rstrip("\n").split("\n")

    def _new_console(self, terminalreporter: pytest.TerminalReporter) -> Console:
        width = max(self._console.width, _NARROWEST)
        return Console(width=width, force_terminal=terminalreporter.hasmarkup, highlight=False)

    def _counting(self) -> list[CellRecord]:
        """Return the records that say what became of the run's cells; of two builds every turn does."""
        if self.run.request.ab is None:
            return self.run.folder.latest()
        return counting(self.run.folder.records())


def _how_it_died(node: Any) -> str:
    """Return how a worker's process ended, as the rest of a sentence about it."""
    process = getattr(getattr(node.gateway, "_io", None), "popen", None)
    try:
        status = process.wait(_REAPED_S) if process is not None else None
    except subprocess.TimeoutExpired:  # it closed its pipes and lives
        status = None
    if status is None:
        return "broke off"
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"


def _parameter(nodeid: str) -> str:
    """Return what stands in a test id's brackets."""
    return nodeid.partition("[")[2].removesuffix("]")
