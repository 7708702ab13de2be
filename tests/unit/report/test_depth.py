from __future__ import annotations

from types import ModuleType

from harness.report.depth import depths_of


def test_decode_speed_is_told_by_depth_of_history(make: ModuleType) -> None:
    at = {0: 92.4, 1024: 71.1, 4096: 40.2, 500: 80.0}
    cells = [make.record(threads=4, tps=tps, config={"context_tokens": depth}) for depth, tps in at.items()]
    [found] = depths_of([*cells, make.record(threads=2, tps=60.0)])
    assert found.says == "decode 92.4 → 80.0 → 71.1 → 40.2 tok/s at 0/500/1k/4k tokens of history"
    assert found.points == ((0, 92.4), (500, 80.0), (1024, 71.1), (4096, 40.2))
    assert found.label == "tiny-llama · CPU · low / low · 64 → 32 · 4 threads"


def test_one_depth_is_no_line(make: ModuleType) -> None:
    assert depths_of([make.record(threads=4, config={"context_tokens": 1024})]) == []
