"""What runs on phones: one test per phone and cell of the plan. ``pytest --devices all`` collects nothing else."""

from harness.plugin import judge
from harness.report.slo import Missed
from harness.store.schema import CellRecord


def test_generation(cell_record: CellRecord, missed_slo: tuple[Missed, ...]) -> None:
    judge(cell_record, missed_slo)
