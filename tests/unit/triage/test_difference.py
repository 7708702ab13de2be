"""What differs and could matter: which comes first, what is folded, and what is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.commands.diff import shown
from harness.core.errors import ConfigError
from harness.store.head import FleetMember
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord
from harness.triage.difference import (
    FILE,
    Comparison,
    Ranking,
    Unknown,
    as_json,
    compare,
    read_rankings,
    shipped_rankings,
)
from harness.triage.side import NO_CELL, NO_SUCH_SETTING, Side, of_facts, of_record

GIB = 1024**3
FACTS: dict[str, Any] = {
    "model": "Toy 3", "soc": "TS900", "sdk": 33, "android_release": "13", "abis": ["arm64-v8a"], "page_size": 4096,
    "kernel": "5.15.1", "cpu_features": ["asimd", "asimddp", "i8mm", "aes"], "ram_bytes": 8 * GIB,
    "available_bytes": 4 * GIB, "storage_free_bytes": 40 * GIB, "opencl": "/vendor/lib64/libOpenCL.so",
    "vulkan": "", "gpu": "Toy GPU 7", "driver": "V@0530.1",
    "battery": {"level_pct": 90, "temp_c": 28.0, "plugged": "usb", "nulls": {}}, "nulls": {},
}  # fmt: skip
SAMPLE = Path(__file__).parents[2] / "data" / "two_phones_run"


def phone(name: str = "toy", **over: Any) -> Side:
    return of_facts(name, {**FACTS, **over})


def cell(facts: dict[str, Any] | None = None, **over: Any) -> Side:
    """A cell of the sample run, on a toy phone; ``over`` replaces fields of the record, tables by their keys."""
    given = next(RunFolder(SAMPLE).records()).model_dump(mode="json", by_alias=True)
    for key, value in over.items():
        given[key] = {**given[key], **value} if isinstance(value, dict) else value
    return of_record(CellRecord.model_validate(given), {**FACTS, **(facts or {})})


def failed(reason: str, facts: dict[str, Any] | None = None, **over: Any) -> Side:
    return cell(facts, verdict="failed", reason=reason, fault="product", metrics=None, thermal=None, output=None,
                nulls={"metrics": "it died", "thermal": "it died", "output": "it died", "driver": "not read",
                       "quant_bits": "not told"}, **over)  # fmt: skip


def names(found: Comparison) -> list[str]:
    return [one.name for one in found.matters]


def test_a_phone_is_the_same_as_itself() -> None:
    found = compare(phone(), phone("its twin"))
    assert found.differences == ()
    assert found.same == 21


def test_without_a_failure_the_heavier_difference_comes_first() -> None:
    found = compare(
        phone(), phone(cpu_features=["asimd", "asimddp", "aes"], page_size=16384, sdk=35, driver="V@0615.0")
    )
    assert names(found) == ["page_size", "cpu_feature.i8mm", "driver", "sdk"]
    first, second = found.matters[:2]
    assert (first.a, first.b) == (4096, 16384)
    assert (second.a, second.b) == (True, False)


def test_what_hardly_matters_is_folded() -> None:
    found = compare(phone(), phone(model="Toy 4", cpu_features=["asimd", "asimddp", "i8mm", "sm4", "aes"]))
    assert names(found) == []
    assert [one.name for one in found.differences] == ["model", "cpu_feature.sm4"]


@pytest.mark.parametrize(
    ("reason", "first"),
    [
        ("illegal_instruction", ["cpu_feature.i8mm", "kernel"]),
        ("link_error", ["page_size", "opencl", "sdk"]),
        ("out_of_memory", ["available_bytes", "ram_bytes", "sdk"]),
        ("no_space", ["storage_free_bytes"]),
    ],
)
def test_what_explains_the_failure_comes_first(reason: str, first: list[str]) -> None:
    other = {
        "cpu_features": ["asimd", "asimddp", "aes"], "page_size": 16384, "sdk": 35, "kernel": "6.1.0", "opencl": "",
        "ram_bytes": 4 * GIB, "available_bytes": GIB, "storage_free_bytes": GIB,
    }  # fmt: skip
    bad = of_facts("bad", {**FACTS, **other})
    found = compare(phone(), Side(bad.name, bad.values, bad.unknown, complete=bad.complete, reason=reason))
    assert [one.name for one in found.matters if one.told] == first
    assert names(found)[: len(first)] == first
    assert set(names(found)) - set(first)


def test_the_usual_explanation_comes_before_heavier_ones() -> None:
    found = compare(cell(), failed("out_of_memory", {"abis": ["armeabi-v7a"], "available_bytes": GIB}))
    assert [(one.name, one.told, one.usual) for one in found.matters] == [
        ("available_bytes", True, True),
        ("abis", True, False),
    ]


@pytest.mark.parametrize("swapped", [False, True])
def test_what_the_failing_side_has_enough_of_explains_nothing(swapped: bool) -> None:
    poor, rich = {"available_bytes": GIB, "page_size": 4096}, {"available_bytes": 6 * GIB, "page_size": 16384}
    for facts, explained in ((poor, ["available_bytes"]), (rich, [])):
        sides = cell(rich if facts is poor else poor), failed("out_of_memory", facts)
        found = compare(*(reversed(sides) if swapped else sides))
        assert [one.name for one in found.matters if one.told] == explained
        assert names(found)[:1] == (explained or ["page_size"])


def test_only_the_worse_side_lacks_something() -> None:
    lacking, having = {"opencl": ""}, {"opencl": "/vendor/lib64/libOpenCL.so"}
    on_gpu = {"backend": "opencl", "threads": 68}
    for facts, told in ((lacking, True), (having, False)):
        other = having if facts is lacking else lacking
        bad = failed("gpu_driver_error", facts, config=on_gpu)
        assert [one.told for one in compare(cell(other), bad).differences if one.name == "opencl"] == [told]


def test_of_two_that_fail_otherwise_neither_is_the_worse_one() -> None:
    found = compare(failed("crash"), failed("out_of_memory", {"available_bytes": 7 * GIB}))
    assert [(one.name, one.told) for one in found.matters] == [("available_bytes", True)]


def test_the_slow_side_is_the_worse_one() -> None:
    speed = {"median": 60.0, "mad": 1.0, "cv": None, "ci95": None, "n": 5}
    whys = {**_nulls(), "decode_tps.cv": "few", "decode_tps.ci95": "few"}
    cool = {"battery": {"temp_c": 25.0, "nulls": {}}}
    hot = {"battery": {"temp_c": 41.0, "nulls": {}}}
    for mine, others, told in ((hot, cool, True), (cool, hot, False)):
        slow = cell(mine, metrics={"decode_tps": speed}, nulls=whys)
        for found in (compare(cell(others), slow), compare(slow, cell(others))):
            assert [one.told for one in found.differences if one.name == "battery.temp_c"] == [told]


def test_a_failure_that_both_have_explains_no_difference() -> None:
    found = compare(failed("crash"), failed("crash", {"page_size": 16384}))
    assert (found.kinds, names(found)) == (frozenset(), ["page_size"])


def test_settings_are_compared_one_by_one_and_an_unset_one_is_the_default() -> None:
    found = compare(
        cell(config={"precision": "high"}), failed("out_of_memory", config={"engine": {"use_mmap": True}, "threads": 4})
    )
    assert [(one.name, one.a, one.b, one.told) for one in found.matters] == [
        ("config.precision", "high", "low", True),
        ("config.engine.use_mmap", "the engine's default", True, True),
        ("config.threads", 1, 4, False),
    ]


def test_another_engine_explains_a_model_that_does_not_load() -> None:
    found = compare(cell(), failed("load_error", bundle={"engine_version": "2.9.5", "hash": "other"}))
    assert [(one.name, one.told) for one in found.matters] == [("bundle.engine_version", True), ("bundle.hash", True)]


def test_a_gpu_does_not_matter_to_cells_on_the_cpu() -> None:
    assert names(compare(cell(), cell({"driver": "V@0615.0", "opencl": ""}))) == []
    on_gpu = failed("gpu_driver_error", {"driver": "V@0615.0"}, config={"backend": "opencl", "threads": 68})
    assert names(compare(cell(), on_gpu)) == ["config.backend", "driver"]


def test_the_number_of_a_gpu_backend_is_no_count_of_threads() -> None:
    found = compare(cell(), failed("crash", config={"backend": "opencl", "threads": 68}))
    assert [one for one in found.unknown if one.name == "config.threads"] == [
        Unknown("config.threads", None, NO_SUCH_SETTING, 73, True)
    ]


def test_of_two_cells_that_are_ok_the_slow_one_is_explained() -> None:
    speed = {"median": 60.0, "mad": 1.0, "cv": None, "ci95": None, "n": 5}
    found = compare(
        cell(), cell({"sdk": 35, "battery": {"temp_c": 41.0, "nulls": {}}}, metrics={"decode_tps": speed},
                     nulls={**_nulls(), "decode_tps.cv": "few", "decode_tps.ci95": "few"})
    )  # fmt: skip
    assert found.kinds == {"slow"}
    assert [(one.name, one.told) for one in found.matters] == [("battery.temp_c", True), ("sdk", False)]
    (decode,) = [row for row in as_json(found)["outcomes"] if row["field"] == "decode_tps"]  # type: ignore[attr-defined]
    assert (decode["b"], round(decode["ratio"], 2)) == (60.0, 0.4)


def _nulls() -> dict[str, str]:
    return dict(next(RunFolder(SAMPLE).records()).nulls)


def test_unknown_on_one_side_is_no_difference() -> None:
    blind = phone(cpu_features=[], driver=None, battery=None, nulls={"driver": "no GLES line", "battery": "no dumpsys"})
    found = compare(phone(), blind)
    assert found.differences == ()
    assert {(one.name, one.why_a, one.why_b) for one in found.unknown} == {
        ("cpu_features", "the phone does not tell", "the kernel tells no features"),
        ("cpu_feature.asimd", None, "the phone does not tell"),
        ("cpu_feature.asimddp", None, "the phone does not tell"),
        ("cpu_feature.i8mm", None, "the phone does not tell"),
        ("cpu_feature.aes", None, "the phone does not tell"),
        ("driver", None, "no GLES line"),
        ("battery.level_pct", None, "no dumpsys"),
        ("battery.temp_c", None, "no dumpsys"),
        ("battery.plugged", None, "no dumpsys"),
        ("battery.status", "the phone does not tell", "no dumpsys"),
        ("battery.health", "the phone does not tell", "no dumpsys"),
        ("battery.overridden", "the phone does not tell", "no dumpsys"),
    }


def test_a_phone_alone_has_no_settings() -> None:
    found = compare(phone(), cell())
    assert ("config.backend", NO_CELL) in [(one.name, one.why_a) for one in found.unknown]


@pytest.mark.parametrize(
    ("over", "differs"),
    [
        ({"ram_bytes": int(7.6 * GIB)}, []),
        ({"available_bytes": int(2.9 * GIB)}, ["available_bytes"]),
        ({"storage_free_bytes": 12 * GIB}, []),
        ({"storage_free_bytes": 2 * GIB}, ["storage_free_bytes"]),
        ({"battery": {"level_pct": 40, "temp_c": 30.5, "plugged": "usb"}}, []),
        ({"battery": {"level_pct": 9, "temp_c": 28.0, "plugged": "usb"}}, ["battery.level_pct"]),
    ],
)
def test_numbers_that_nearly_agree_or_are_enough_are_the_same(over: dict[str, Any], differs: list[str]) -> None:
    assert names(compare(phone(), phone(**over))) == differs


def test_facts_of_strange_types_do_no_harm() -> None:
    odd = of_facts("odd", {"sdk": {"x": 1}, "abis": [], "cpu_features": "fp", "battery": 3, "ram_bytes": float("nan")})
    assert odd.values == {}
    assert compare(odd, phone()).differences == ()


def test_every_field_of_a_phone_and_of_a_cell_is_ranked() -> None:
    fields = cell().fields | phone().fields | cell(config={"backend": "vulkan"}, backend={"requested": "vulkan",
        "actual": "vulkan"}).fields | {"cpu_feature.anything", "config.engine.anything"}  # fmt: skip
    assert [name for name in sorted(fields) if not any(one.fits(name) for one in shipped_rankings())] == []


def test_every_ranking_of_its_own_is_reached() -> None:
    first = {name: one for one in reversed(shipped_rankings()) for name in one.fields}
    assert all(first[name] is one for one in shipped_rankings() for name in one.fields)


def test_the_sample_run_compares_its_two_phones() -> None:
    run = RunFolder.open(SAMPLE).read_info()
    mid, high = sorted((_of(member) for member in run.fleet), key=lambda side: side.name, reverse=True)
    assert names(compare(mid, high)) == ["opencl", "available_bytes", "ram_bytes", "sdk", "soc", "cpu_max_khz"]


def _of(member: FleetMember) -> Side:
    return of_facts(member.phone.name, member.facts, member.nulls)


_ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**30)])
    | st.floats()
    | st.text(max_size=4),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["level_pct", "nulls", "temp_c", "status"]), inside, max_size=3)
    ),
    max_leaves=4,
)


@settings(max_examples=100, deadline=None)
@given(*[st.dictionaries(st.sampled_from([*FACTS, "thermal", "battery_pct", "cpu_max_khz"]), _ODD, max_size=6)] * 2)
def test_facts_of_any_kind_are_compared_the_same_both_ways(a: dict[str, Any], b: dict[str, Any]) -> None:
    found, other = compare(of_facts("a", a), of_facts("b", b)), compare(of_facts("b", b), of_facts("a", a))
    told = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert [one["field"] for one in told["differences"]] == [one.name for one in other.differences]
    assert [(one.a, one.b) for one in found.differences] == [(one.b, one.a) for one in other.differences]
    assert all(shown(one.name, value) for one in found.differences for value in (one.a, one.b))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"illegal_instruction"', '"bad_luck"', "bad_luck"),
        ("weight = 90", "weight = 0", "difference.0.weight"),
        ("weight = 90", "heft = 90", "difference.0"),
        ("weight = 90", "weight =", "is not TOML"),
        ('usual = ["illegal_instruction"', 'usual = ["hang"', "'hang'] is usual and not explained"),
    ],
)
def test_a_ranking_that_is_not_whole_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    file = tmp_path / "differences.toml"
    file.write_text(FILE.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        read_rankings(file)


def test_a_truth_is_not_a_number() -> None:
    near = Ranking(fields=("x",), title="x", why="x", weight=1, source=("x",), within=2)
    assert near.same(1, 2)
    assert not near.same(True, 2)
    assert not near.same("1", 2)
