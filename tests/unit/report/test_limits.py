from __future__ import annotations

from types import ModuleType

from harness.report.html import report_html
from harness.report.limits import phone_limits, share_of_roof


def test_the_share_of_the_memorys_limit_is_told_or_why_it_is_not(make: ModuleType) -> None:
    base = make.record()
    assert share_of_roof(base) == "share of the memory's limit not known: memory bandwidth was not measured"
    metrics = base.metrics.model_copy(update={"roofline_ratio": 0.624, "bandwidth_gb_per_s": 25.0})
    assert share_of_roof(base.model_copy(update={"metrics": metrics})) == "62 % of the memory's limit (25.0 GB/s)"


def test_threads_history_and_the_memorys_limit_stand_in_the_page(make: ModuleType) -> None:
    records = [make.record(threads=n, tps=20.0 * n) for n in (1, 2)]
    records.append(make.record(threads=2, tps=30.0, config={"context_tokens": 1024}))
    page = report_html(make.info("atlas", plan={"threads": [1, 2]}), records)
    assert "best at 2 threads, the most that were tried" in page
    assert "1: 20.0 tok/s, 2: 40.0 (2.00x, 100 % a thread)" in page
    assert "decode 40.0 → 30.0 tok/s at 0/1k tokens of history" in page
    assert "share of the memory&#39;s limit not known: memory bandwidth was not measured" in page


def test_a_phone_of_single_cells_has_nothing_to_say(make: ModuleType) -> None:
    assert not phone_limits(make.info("atlas"), [make.record()]).any
    assert 'aria-label="threads and history"' not in report_html(make.info("atlas"), [make.record()])
