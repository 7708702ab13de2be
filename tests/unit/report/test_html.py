from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.report import page_assets
from harness.report.chart import plotly_source
from harness.report.html import report_html, write_report
from harness.report.page_assets import unpacked
from harness.store.schema import Finding

Parse = Callable[[str], Any]


@pytest.fixture(scope="module")
def page(make: ModuleType, parse: Parse):
    return parse(report_html(make.info(cells=15), make.all_verdicts()))


def rows(page) -> dict[str, Any]:
    return {row.attributes["data-cell"]: row for row in page.all("tr") if "data-cell" in row.attributes}


def chart_data(page) -> str:
    return page.one("script", id="chart-data").children[0]


def test_the_head_says_what_happened_and_in_which_run(page) -> None:
    assert page.one("h1").text.startswith("2 phones, 15 cells: 7 ok, 2 rejected")
    head = page.one("dl", cls="meta").text
    for word in ("20260101-000000-ab12", "smoke", "2026-01-01 00:00:00 UTC", "MNN 3.6.1", "0.1.0"):
        assert word in head
    assert [part.text for part in page.one("ul", cls="bar").all("li")] == [
        "7 ok",
        "2 rejected",
        "2 failed",
        "3 unsupported",
        "1 skipped",
    ]


def test_what_is_wrong_says_whose_fault_it_is_and_what_to_do(page) -> None:
    box = page.one("section", id="wrong")
    troubles = box.all("li", cls="trouble")
    assert [each.one("code").text if len(each.all("code")) == 1 else each.all("code")[0].text for each in troubles] == [
        "backend_fallback",
        "crash",
        "throttled",
        "device_lost",
    ]
    crash = troubles[1].text
    assert "1 failed the runner was killed by a signal crash on birch" in crash
    assert "signal 11 in libMNN.so" in crash
    assert "Whose fault product : model, engine or the phone's driver" in crash
    assert "What to do Read the last lines of stderr" in crash


def test_a_cause_that_the_logs_show_is_told_with_its_own_advice(make: ModuleType, parse: Parse) -> None:
    cause = Finding(
        code="missing", severity="info", title="A <b>library</b>", cause="Nobody pushed it.", advice="Push it."
    )
    cell = make.record(reason=Reason.LINK_ERROR, detail="no library").model_copy(update={"findings": (cause,)})
    [trouble] = parse(report_html(make.info(), [cell])).one("section", id="wrong").all("li", cls="trouble")
    assert "Known cause A <b>library</b>. Nobody pushed it. What to do Push it." in trouble.text


def test_the_same_trouble_on_several_phones_is_told_once(make: ModuleType, parse: Parse) -> None:
    cells = [make.record(name, reason=Reason.CRASH, detail="signal 11") for name in ("atlas", "birch")]
    cells.append(make.record("atlas", threads=2, reason=Reason.CRASH, detail="signal 6"))
    troubles = parse(report_html(make.info(), cells)).one("section", id="wrong").all("li", cls="trouble")
    assert len(troubles) == 2
    assert "2 failed" in troubles[0].text
    assert "on atlas and birch" in troubles[0].text


def test_many_kinds_of_trouble_fold_away_after_the_first(make: ModuleType, parse: Parse) -> None:
    cells = [make.record(threads=n, reason=Reason.CRASH, detail=f"signal {n}") for n in range(1, 10)]
    box = parse(report_html(make.info(), cells)).one("section", id="wrong")
    assert len(box.all("li", cls="trouble")) == 9
    assert "3 more" in [summary.text for summary in box.all("summary")]


def test_a_good_run_has_no_box_of_trouble(make: ModuleType, parse: Parse) -> None:
    page = parse(report_html(make.info("atlas"), [make.record()]))
    assert page.all("section", id="wrong") == []
    assert "Nothing was rejected and nothing failed." in page.text
    assert "Nothing: every cell is ok." in page.one("section", id="refused").text


def test_an_ok_row_has_its_figures_proof_and_raw_output(make: ModuleType, parse: Parse) -> None:
    cell = make.record(threads=4, tps=84.2)
    row = rows(parse(report_html(make.info("atlas"), [cell])))[cell.cell_id]
    cells = [each.text for each in row.children if not isinstance(each, str)]
    assert cells[:7] == ["tiny-llama", "CPU", "4", "low / low", "64 → 32", "187", "342 ± 2.50"]
    assert cells[7:12] == ["84.2 ± 0.80", "411 cold 812", "196 MiB", "3.00 GiB", "41.2"]
    assert cells[12:] == ["ok", "engine load event: backend cpu", "files"]
    assert row.one("a").attributes["href"] == "raw/0123456789ab/1/"
    assert row.all("s") == []
    first_use = "caches warm; first use, caches cold: load 812 ms, first token after 955 ms"
    assert row.all("td", cls="n")[5].one("span").attributes["title"] == first_use
    assert "cv 2.1 %; 95 % interval 82.7 to 86.2" in row.all("td", cls="n")[4].one("span").attributes["title"]


def test_a_rejected_figure_is_struck_through_everywhere_and_in_no_chart(page, make: ModuleType) -> None:
    row = rows(page)[make.fallback().cell_id]
    struck = [element.text for element in row.all("s", cls="refused")]
    assert struck == ["187", "342 ± 2.50", "77.7 ± 0.80", "411 cold 812", "196 MiB", "3.00 GiB", "41.2"]
    shown_in = [s for s in page.all("s") if "77.7" in s.text]
    assert len(shown_in) == len(re.findall(r"77\.7", page.one("main").text)) == 2
    for tps in ("77.7", "99.9"):
        assert tps not in chart_data(page)
    assert "OpenCL → CPU" in row.text
    assert "backend_fallback the engine ran another backend than asked" in row.text


def test_the_chart_has_the_ok_cells_and_a_table_of_the_same(page) -> None:
    data = json.loads(chart_data(page))["data"]
    assert (data[0]["name"], data[0]["y"]) == ("atlas · low", [31.0, 62.0, 124.0])
    table = page.one("table", cls="points")
    assert len(table.all("tr")) == 1 + 7
    assert "atlas · low 4 124 122 to 126" in [row.text for row in table.all("tr")]
    assert "table below" in page.one("div", id="chart").attributes["aria-label"]


def test_a_run_without_ok_cells_says_why_there_is_no_chart(make: ModuleType, parse: Parse) -> None:
    html = report_html(make.info("atlas"), [make.fallback()])
    page = parse(html)
    assert "There is no chart: none of 1 cell is ok." in page.text
    assert page.all("script", id="plotly") + page.all("script", id="chart-data") == []
    assert len(html) < 120_000


def test_every_unknown_has_its_reason_as_a_tooltip_and_as_a_footnote(page, make: ModuleType, parse: Parse) -> None:
    speechless = make.record().model_copy(
        update={"metrics": make.record().metrics.model_copy(update={"load_ms": None})}
    )
    speechless = speechless.model_copy(update={"nulls": {**speechless.nulls, "load_ms": "the runner does not say"}})
    for each in (page, parse(report_html(make.info("atlas"), [speechless]))):
        dashes = each.all("a", cls="unknown")
        assert dashes
        for dash in dashes:
            note = each.one("li", id=dash.attributes["href"].removeprefix("#"))
            assert dash.attributes["title"]
            assert note.text.endswith(": " + dash.attributes["title"])
    assert "load : the runner does not say" in each.text


def test_a_cell_that_was_not_run_says_so_in_its_row(page, make: ModuleType) -> None:
    cell = make.record("birch", backend="opencl", reason=Reason.BACKEND_MISSING_ON_PHONE)
    row = rows(page)[cell.cell_id]
    assert "the cell was not run" in row.one("td", cls="unmeasured").text
    assert row.all("s") == []


def test_text_stands_beside_speed_fastest_first(page) -> None:
    table = page.one("section", id="spoken").all("table")[0]
    found = [(row.all("td")[0].text, row.one("td", cls="answers").text) for row in table.all("tr")[1:]]
    assert [speed for speed, _ in found] == [f"{tps} ± 0.80" for tps in ("124", "77.7", "66.6", "62.0", "31.0")]
    assert "What is the capital of France? The capital is Lyon. wrong , expected Paris" in found[1][1]
    assert "What is the capital of France? Paris is the capital. right , expected Paris" in found[0][1]
    assert [row.one("td", cls="golden").text for row in table.all("tr")[1:3]] == ["1/1", "0/1"]


def test_without_questions_the_text_that_was_timed_is_shown(make: ModuleType, parse: Parse) -> None:
    cell = make.record()
    output = cell.output.model_copy(update={"answers": (), "golden": None, "text": "once upon"})
    cell = cell.model_copy(update={"output": output, "nulls": {**cell.nulls, "golden": "the plan asks nothing"}})
    spoken = parse(report_html(make.info("atlas"), [cell])).one("section", id="spoken").text
    assert "no question was asked; the timed text is once upon" in spoken
    assert "the plan asks nothing" in spoken


def test_each_refused_cell_has_sentence_detail_evidence_and_advice(page) -> None:
    refused = page.one("section", id="refused")
    assert [article.all("code")[0].text for article in refused.all("article")] == [
        "backend_fallback",
        "throttled",
        "crash",
        "device_lost",
        "backend_missing_on_phone",
        "out_of_time",
    ]
    fallback = refused.all("article")[0].text
    for part in ("ran another backend", "asked for opencl, cpu ran", "no OpenCL", "runner.stderr:3", "Do not ship"):
        assert part in fallback
    assert "nobody's" in refused.all("article")[4].text


def test_what_was_refused_and_what_was_said_lead_to_their_cells(page, make: ModuleType) -> None:
    target = f"#cell-{make.fallback().cell_id[:12]}"
    for section in ("refused", "spoken", "picker"):
        assert target in [link.attributes["href"] for link in page.one("section", id=section).all("a")]
    assert page.one("tr", id=target.removeprefix("#")).attributes["data-cell"] == make.fallback().cell_id


def test_fleet_left_out_and_provenance_are_there(page) -> None:
    fleet = page.one("section", id="fleet").text
    for part in ("atlas", "8.00 GiB", "kernel 5.15.0", "cedar : unauthorized → accept the key on its screen"):
        assert part in fleet
    made_of = page.one("section", id="provenance").text
    for part in ("pytest --devices all --plan 'my plan'", "m" * 64, "b" * 64, '"use_mmap": [ false ]', "bench-pc"):
        assert part in made_of


def test_a_run_that_was_resumed_shows_each_command_and_who_is_missing_now(make: ModuleType, parse: Parse) -> None:
    again = {
        "started": "2026-01-02T00:00:00Z",
        "command": ["pytest", "--resume"],
        "harness_version": "0.1.0",
        "phones": ["atlas", "cedar"],
        "left_out": [{"name": "birch", "reason": "not here: 3 cells unfinished"}],
    }
    page = parse(report_html(make.info(resumptions=[again]), [make.record()]))
    assert "resumed 2026-01-02T00:00:00Z" in page.one("section", id="provenance").text
    assert "pytest --resume" in page.one("section", id="provenance").text
    fleet = page.one("section", id="fleet").text
    assert "not here: 3 cells unfinished" in fleet
    assert "unauthorized" not in fleet


def test_an_unfinished_run_says_how_much_is_missing(make: ModuleType, parse: Parse) -> None:
    assert "15 of 16 planned cells have no record" in report_html(make.info(cells=16), [make.record()])
    assert "1 of 2 planned cells has no record" in report_html(make.info(cells=2), [make.record()])


def test_an_empty_run_makes_a_page_that_says_so(make: ModuleType, parse: Parse) -> None:
    page = parse(report_html(make.info(), []))
    assert page.one("h1").text == "2 phones, no cell was run"
    assert "No cell was run: the run folder holds no record." in page.text
    assert "There is no chart: no cell was run." in page.text


HOSTILE = "<script>alert(1)</script></script><!--{{ 7*7 }}<b onmouseover='x'>\"'&amp;[red]\x1b[31m\x00\u202eevil\u2028"
INERT = HOSTILE
for hidden, escape in (("\x1b", r"\x1b"), ("\x00", r"\x00"), ("\u202e", r"\u202e"), ("\u2028", r"\u2028")):
    INERT = INERT.replace(hidden, escape)


OUR_TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "link",
        "style",
        "script",
        "noscript",
        "body",
        "header",
        "main",
        "footer",
        "nav",
    ),
    *("section", "article", "h1", "h2", "h3", "p", "div", "span", "ul", "ol", "li", "dl", "dt", "dd", "table"),
    *(
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "a",
        "b",
        "i",
        "s",
        "br",
        "small",
        "sup",
        "time",
        "details",
        "summary",
        "pre",
    ),
    *("code", "figure", "figcaption", "caption", "button", "label", "input", "select", "option"),
}


@pytest.fixture(scope="module")
def hostile(make: ModuleType) -> str:
    evil = make.fallback().model_dump(mode="json", by_alias=True)
    evil |= {"detail": HOSTILE, "phone": make.phone(HOSTILE, model=HOSTILE), "raw": "javascript:alert(1)"}
    evil["model"]["name"] = HOSTILE
    evil["backend"]["proof"] = HOSTILE + "x" * 100_000
    evil["output"]["answers"][0] |= {"text": HOSTILE, "question": HOSTILE, "expect": HOSTILE}
    evil["findings"][0] |= {"title": HOSTILE, "evidence": HOSTILE, "advice": HOSTILE, "code": HOSTILE}
    evil["nulls"]["ttft_ms.p90"] = HOSTILE
    good = make.record(phone=make.phone(HOSTILE), model=HOSTILE, precision=HOSTILE)
    head = make.info("atlas").model_dump(mode="json", by_alias=True)
    head |= {"plan": {HOSTILE: HOSTILE}, "plan_name": HOSTILE, "command": [HOSTILE], "host": {HOSTILE: HOSTILE}}
    head["fleet"][0]["facts"] |= {"kernel": HOSTILE, HOSTILE: [HOSTILE], "soc": HOSTILE}
    head["left_out"] = [{"name": HOSTILE, "reason": HOSTILE, "remedy": HOSTILE}]
    records = [type(good).model_validate(evil), good]
    return report_html(type(make.info()).model_validate(head), records)


def test_hostile_text_is_shown_letter_by_letter(hostile: str, parse: Parse) -> None:
    page = parse(hostile)
    assert page.text.count(INERT) > 15
    tags = {element.tag for element in page.all()}
    assert tags <= OUR_TAGS
    assert [element for element in page.all() if any(name.startswith("on") for name in element.attributes)] == []


def test_hostile_text_adds_no_script_and_no_link(hostile: str, parse: Parse) -> None:
    page = parse(hostile)
    scripts = page.all("script")
    assert [script.attributes for script in scripts] == [
        {"type": "application/json", "id": "chart-data"},
        {"type": "text/plain", "id": "cells-data"},
        {},
        {"type": "text/plain", "id": "plotly"},
    ]
    assert scripts[2].children == [page_assets.script()]
    for packed in (scripts[1], scripts[3]):
        assert not set(packed.text) & set("<>&\"'/\\ ")
    assert all(link.attributes["href"].startswith(("#", "raw/")) for link in page.all("a"))
    assert set(unpacked(scripts[1].text)["texts"]["raw"]["words"]) == {"", "raw/0123456789ab/1/"}
    assert [trace["name"].count("&lt;script&gt;") for trace in json.loads(chart_data(page))["data"]] == [2]


def test_no_control_or_direction_character_reaches_the_page(hostile: str) -> None:
    body = hostile[: hostile.index('<script type="application/json"')]
    assert not set(body) & set("\x00\x1b\u202e\u2028")
    assert not set(chart_text := hostile[len(body) : len(body) + 5000]) & set("\x00\x1b\u202e\u2028"), chart_text


def test_a_long_text_is_cut_and_can_be_shown_whole(hostile: str, parse: Parse) -> None:
    proofs = [details for details in parse(hostile).all("details", cls="all") if "x" * 100_000 in details.text]
    assert len(proofs) == 1
    assert proofs[0].one("summary").text == f"show all {len(HOSTILE) + 100_000} characters"


def test_the_page_asks_no_other_host_and_runs_only_our_scripts(hostile: str, parse: Parse) -> None:
    page = parse(hostile)
    (policy,) = (m.attributes["content"] for m in page.all("meta") if "http-equiv" in m.attributes)
    assert "default-src 'none'" in policy
    hashes = re.findall(r"'sha256-([^']+)'", policy)
    scripts = [script.children[0] for script in page.all("script") if "type" not in script.attributes]
    scripts.append(page_assets.unpacked_bytes(page.one("script", id="plotly").text).decode())
    assert scripts[-1] == plotly_source()
    assert hashes == [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert [e for e in page.all() if "src" in e.attributes] == []
    assert [e.attributes["href"] for e in page.all("link")] == ["data:,"]
    assert "url(" not in page.one("style").children[0]
    assert "@import" not in page.one("style").children[0]


def test_the_text_comes_before_the_data_and_the_big_script(hostile: str) -> None:
    places = [hostile.index(part) for part in ("</main>", 'id="cells-data"', 'id="plotly"', "</body>")]
    assert places == sorted(places)
    assert len(hostile) < 2_500_000


def test_the_report_is_written_whole_into_the_run_folder(make: ModuleType, tmp_path: Path) -> None:
    run = make.run_folder(tmp_path / "run", make.info("atlas"), [make.fallback()])
    path = write_report(run)
    assert path == run / "report.html"
    assert path.read_text(encoding="utf-8") == report_html(make.info("atlas"), [make.fallback()])
    assert sorted(each.name for each in run.iterdir() if each.name != ".lock") == [
        "report.html",
        "results.jsonl",
        "run.json",
    ]


def test_a_report_elsewhere_still_links_to_the_raw_output(make: ModuleType, parse: Parse, tmp_path: Path) -> None:
    run = make.run_folder(tmp_path / "a run", make.info("atlas"), [make.fallback()])
    path = write_report(run, tmp_path / "out" / "x.html")
    (row,) = rows(parse(path.read_text(encoding="utf-8"))).values()
    (link,) = (a.attributes["href"] for a in row.all("a") if a.text == "files")
    assert link == "../a%20run/raw/0123456789ab/1/"


@pytest.mark.parametrize(
    "raw", ["javascript:alert(1)", "/etc/passwd", "raw/../../secret", "https://x/", "raw/..", "..raw/x"]
)
def test_a_raw_path_that_leads_elsewhere_is_no_link(make: ModuleType, parse: Parse, raw: str) -> None:
    page = parse(report_html(make.info("atlas"), [make.record(raw=raw)]))
    assert [a for a in page.all("a") if a.text == "files"] == []
    assert "raw files : the recorded path is not one below raw/" in page.text


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not a run folder"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_notes_stand_below_the_phones_table_once_and_only_warnings_mark_a_cell(make: ModuleType, parse: Parse) -> None:
    night = [record for record in make.a_night() if record.phone.name == "atlas"]
    page = parse(report_html(make.info("atlas"), night))
    assert [part.text for part in page.one("ul", cls="bar").all("li")] == ["4 ok"]
    assert page.all("section", id="wrong") == []
    assert page.one("section", id="refused").text.endswith("Nothing: every cell is ok.")
    table = page.one("section", id="phone-1")
    verdicts = [row.one("td", cls="verdict").text for row in rows(page).values()]
    assert verdicts == ["ok lease prepare_refused", "ok recovered", "ok recovered", "ok"]
    said = [item for item in table.one("ul", cls="remarks").children if not isinstance(item, str)]
    assert [item.attributes["class"] for item in said] == ["warning"] * 3 + ["info"] * 2
    assert said[2].text == "recovered the phone was lost and came back (reconnect) in 2 cells"
    assert said[3].text == "foreground_app in front: com.example.home"
    assert said[4].text == "cool_down skin stays at 36.4 °C 1 more skin stays at 36.9 °C"


def test_notes_are_no_evidence_of_what_was_refused(make: ModuleType, parse: Parse) -> None:
    cell = make.record(
        reason=Reason.CRASH,
        findings=[make.note("crash", "signal 11", "error"), make.note("foreground_app", "in front: com.example.home")],
    )
    refused = parse(report_html(make.info("atlas"), [cell])).one("section", id="refused")
    assert [finding.text for finding in refused.all("details", cls="finding")] == ["error: signal 11 crash"]


def test_what_happened_meanwhile_is_told_of_all_attempts(make: ModuleType, parse: Parse, tmp_path: Path) -> None:
    left = [{"name": "elm", "reason": "held by a person", "remedy": "release it", "code": "held"}]
    head = make.info("atlas", "birch", "cedar", left_out=left)
    page = parse(write_report(make.run_folder(tmp_path / "run", head, make.a_night())).read_text(encoding="utf-8"))
    told = [event.text for event in page.one("section", id="meanwhile").all("li", cls="event")]
    assert told[0] == (
        "2026-01-01 01:03:10 birch given up device_lost cost 3 cells, has not measured since "
        "not back after 120 s: adb does not list it"
    )
    assert (
        "2026-01-01 01:06:02 cedar given up device_offline cost 2 cells, measured again at 2026-01-01 01:50:00"
        in told[-2]
    )
    assert told[-1] == "elm left out held held by a person"
    assert [event.one("span", cls="badge").classes[1] for event in page.all("li", cls="gone")] == ["failed"]
    assert page.one("ul", cls="left-out").text == "elm held : held by a person → release it"
    assert "#meanwhile" in [link.attributes["href"] for link in page.one("nav").all("a")]


def test_a_quiet_run_has_no_such_part(make: ModuleType, parse: Parse) -> None:
    quiet = parse(report_html(make.info("atlas"), [make.record()]))
    assert quiet.all(id="meanwhile") + quiet.all(cls="remarks") + quiet.all(cls="warned") == []
    assert "#meanwhile" not in {link.attributes["href"] for link in quiet.one("nav").all("a")}


def test_much_that_happened_folds_away(make: ModuleType, parse: Parse) -> None:
    cells = [make.record(threads=n, findings=[make.note("recovered", f"way {n}", "warning")]) for n in range(1, 16)]
    box = parse(report_html(make.info("atlas"), cells)).one("section", id="meanwhile")
    assert len(box.all("li", cls="event")) == 15
    assert [summary.text for summary in box.all("summary")] == ["3 more"]
