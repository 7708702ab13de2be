"""What runs on phones: one test per phone and cell of the plan. ``pytest --devices all`` collects nothing else."""

from harness.plugin import judge
from harness.store.schema import CellRecord


def test_generation(cell_record: CellRecord) -> None:
    judge(cell_record)
