"""A phone dies in the middle of the night: it is named, the other one does its cells, and it is left out afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.virtual.control import PhoneControl

PHONES = ("high", "mid")


def test_a_phone_lost_for_good_costs_its_own_cells_and_is_quarantined(
    bench: Any, bench_module: Any, tmp_path: Path
) -> None:
    victim, other = bench.phones
    serial = victim.transport_serial
    control = PhoneControl(victim.name)
    running = bench.start(tmp_path / "run", orders=bench_module.SLOW, wait_s=bench_module.IMPATIENCE_S)
    running.wait_until_measuring(2)
    control.inject("cut")
    done = running.ended()
    assert done.status == 10, done.text
    assert done.verdicts(victim) == ["device_lost", *["phone_gone"] * (bench_module.CELLS - 1)]
    assert done.verdicts(other) == ["ok"] * bench_module.CELLS
    assert done.of(victim)[-1].verdict.value == "skipped"
    assert f"device_lost (infra) on {serial}: {serial}: not back after 1 s (reconnect)" in done.text
    assert "1 failed (device_lost)" in done.text

    # In the morning somebody plugs it in again; the next run still does without it, and says how to have it back.
    control.heal()
    without = bench.run(tmp_path / "without")
    assert without.status == 0, without.text
    assert without.verdicts(other) == ["ok"] * bench_module.CELLS
    [left] = without.folder.read_info().left_out
    assert (left.name, left.code, left.remedy) == (serial, "held", f"mnn-farm devices release {serial}")
    assert left.reason.startswith("quarantined until ")
    assert "not back after 1 s" in left.reason
    assert f"left out: {serial}: quarantined until " in without.text

    released = bench.command("devices", "release", serial)
    assert released.returncode == 0, released.stderr
    finished = bench.run(tmp_path / "run", "--resume")
    assert finished.status == 0, finished.text
    assert finished.verdicts(victim) == finished.verdicts(other) == ["ok"] * bench_module.CELLS
    bench.assert_as_found()
