"""``history.html`` and its CSV, and the verb that writes them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.testing import CliRunner, Result

from harness.cli import app
from harness.core.reasons import Reason

EVIL = "</style><script>document.title='owned'</script>\u202e<img src=x>"
LEVELS = (48.0, 48.2, 47.9, 48.1, 47.8, 48.0, 42.1, 41.8, 42.0, 41.9)


def farm(*args: object) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, args)])


def folders(make: ModuleType, root: Path, *, name: str = "atlas", refused: int | None = None) -> list[Path]:
    """Write a run folder per level: the engine is another one from the sixth run on; one run may be refused."""
    made = []
    for nth, tps in enumerate(LEVELS):
        run_id, started = f"run-{nth:02}", f"2026-01-{nth + 1:02}T00:00:00Z"
        bundle = {"name": "mnn", "hash": "b" * 64, "engine": "MNN", "engine_version": EVIL if nth > 5 else "3.5.0"}
        over: dict[str, Any] = {"run_id": run_id, "bundle": {**bundle, "runner": "farm_runner"}}
        cell = (
            make.record(name, reason=Reason.HOT_START, **over) if nth == refused else make.record(name, tps=tps, **over)
        )
        made.append(make.run_folder(root / run_id, make.info(name, run_id=run_id, started=started, cells=1), [cell]))
    return made


def test_several_runs_give_one_page_beside_the_newest(make: ModuleType, parse, tmp_path: Path) -> None:
    made = folders(make, tmp_path / "reports", refused=3)
    (made[-1] / "report.html").write_text("its own report")
    result = farm(*reversed(made))
    page = tmp_path / "reports" / "history.html"
    assert (result.exit_code, result.output) == (0, f"{page}\n")
    root = parse(page.read_text())
    assert root.one("h1").text == "10 runs, 1 phone: 1 figure worse, 3 steady"
    row = root.one(id="moved").one("tbody").one("tr")
    cells = [cell.text for cell in row.all("td")]
    assert cells[:5] == [
        "tiny-llama · CPU · 1 thread · low / low · 64 → 32", "decode", "−12.6 %", "48.0 tok/s", "41.9 tok/s",
    ]  # fmt: skip
    assert cells[5].startswith("−12.6 % between run-05 and run-06 engine version: 3.5.0 → </style><script>")
    assert "1 gap run-03: rejected: hot_start" in cells[6]
    assert [text.text for text in root.one("svg").all("text", cls="worse-text")] == ["−12.6 %"]
    assert len(root.one("svg").all("polyline")) == 2
    assert [gap.text for gap in root.one("svg").all("path", cls="gap")] == ["run-03: rejected: hot_start"]
    assert [link.attributes["href"] for link in root.one(id="runs").all("a")] == ["run-09/report.html"]


def test_hostile_names_stay_text(make: ModuleType, parse, tmp_path: Path) -> None:
    made = folders(make, tmp_path, name=EVIL)
    farm(*made, "--out", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "<script" not in text
    assert "<img" not in text
    assert "\u202e" not in text
    assert parse(text).one(id="charts").one(cls="phone-name").text.startswith("</style><script>")
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text


def test_every_point_and_gap_goes_into_the_csv(make: ModuleType, tmp_path: Path) -> None:
    made = folders(make, tmp_path, refused=3)
    assert farm(*made, "--csv", tmp_path / "new" / "history.csv").exit_code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "new" / "history.csv").read_text())))
    decode = [row for row in rows if row["figure"] == "decode"]
    assert len(decode) == 10
    assert (decode[0]["value"], decode[0]["ci95_low"], decode[0]["n"], decode[0]["course"]) == (
        "48.0", "46.5", "5", "changed",
    )  # fmt: skip
    changed = {row["run_id"]: row["change_before"] for row in decode if row["change_before"]}
    assert list(changed) == ["run-06"]
    assert {row["run_id"]: row["gap"] for row in decode if row["gap"]} == {"run-03": "rejected: hot_start"}


def test_a_name_that_a_spreadsheet_would_run_is_quoted(make: ModuleType, tmp_path: Path) -> None:
    farm(*folders(make, tmp_path, name='=HYPERLINK("x")'), "--csv", tmp_path / "history.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "history.csv").read_text())))
    assert {row["phone"] for row in rows} == {'\'=HYPERLINK("x")'}


def test_one_folder_named_twice_is_one_run(make: ModuleType, tmp_path: Path) -> None:
    made = make.run_folder(tmp_path / "run", make.info(), [make.record()])
    assert farm(made, made).output == f"{made / 'report.html'}\n"


def test_one_run_gives_its_report_and_its_data(make: ModuleType, tmp_path: Path) -> None:
    made = make.run_folder(tmp_path / "run", make.info(), make.all_verdicts())
    assert farm(made).exit_code == 0
    assert sorted(path.name for path in made.iterdir() if not path.name.startswith(".")) == [
        "junit.xml", "report.html", "results.csv", "results.json", "results.jsonl", "run.json", "summary.md",
        "tiers.json",
    ]  # fmt: skip
    assert len(json.loads((made / "results.json").read_text())["cells"]) == len(make.all_verdicts())


def test_a_report_that_goes_elsewhere_leaves_the_run_folder_alone(make: ModuleType, tmp_path: Path) -> None:
    made = make.run_folder(tmp_path / "run", make.info(), [make.record()])
    before = sorted(made.iterdir())
    page = tmp_path / "page.html"
    assert farm(made, "--out", page).output == f"{page}\n"
    assert page.is_file()
    assert sorted(made.iterdir()) == before


def test_two_folders_with_the_same_run_are_refused(make: ModuleType, tmp_path: Path) -> None:
    made = [make.run_folder(tmp_path / name, make.info(), [make.record()]) for name in ("one", "two")]
    result = farm(*made)
    assert result.exit_code != 0
    assert str(result.exception).startswith(f"{made[0]} and {made[1]} hold the same run, 20260101-000000-ab12")
    assert not (tmp_path / "history.html").exists()


def test_a_csv_of_one_run_is_refused(make: ModuleType, tmp_path: Path) -> None:
    made = make.run_folder(tmp_path / "run", make.info(), [make.record()])
    result = farm(made, "--csv", tmp_path / "history.csv")
    assert "--csv is for several runs" in str(result.exception)


def test_runs_without_any_ok_cell_say_so(make: ModuleType, parse, tmp_path: Path) -> None:
    made = [
        make.run_folder(
            tmp_path / name, make.info(run_id=name), [make.record(reason=Reason.CRASH)] if name == "two" else []
        )
        for name in ("one", "two")
    ]
    assert farm(*made).exit_code == 0
    root = parse((tmp_path / "history.html").read_text())
    assert "No cell was ok in any run." in root.one(id="charts").text
    assert "never ok" in root.one(id="quiet").text
