"""Everything that is made from a run folder: the report, tables for programs, a summary for a pull request."""

from __future__ import annotations

from pathlib import Path

from harness.report.frames import write_csv
from harness.report.html import no_garbage, write_report
from harness.report.junit import write_junit
from harness.report.markdown import write_summary
from harness.report.results_json import write_results_json
from harness.report.tiers import write_tiers
from harness.store.runfolder import ReadOnce, RunFolder


def write_all(run_dir: Path) -> Path:
    """Write them into the run folder, each whole or not at all, and return where the report is.

    Raises:
        ConfigError: ``run_dir`` is not a run folder, or its head cannot be read.
        OSError: the disk does not take them.
    """
    folder = ReadOnce(RunFolder.open(run_dir).path)
    with no_garbage():
        report = write_report(folder)
        for write in (write_tiers, write_csv, write_results_json, write_junit, write_summary):
            write(folder)
    return report
