"""Which model in which configuration for a tier and a phone: three phones with known properties, three models."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from harness.core.reasons import Reason
from harness.core.resources import data_root
from harness.plan.tiers import TierRules, load_tier_rules
from harness.report.html import report_html
from harness.report.tiers import lines_of, tiers_json, tiers_of, tiers_of_runs, together, write_tiers
from harness.report.tiers_json import document, schema_text
from harness.store.schema import CellRecord

GIB = 2**30
MIB = 2**20
SET = "general 0123456789ab"
SLO = {
    "prompt_tokens": 256,
    "ttft_ms": 2000.0,
    "decode_tps": 10.0,
    "sustained_ratio": 0.6,
    "ram_share_max": 0.25,
    "min_available_bytes": GIB,
    "golden": 0.5,
}
RULES = TierRules.model_validate(
    {
        "rules": [{"tier": "high", "when": {"ram_gib_min": 11.0}}, {"tier": "mid", "when": {"ram_gib_min": 5.0}}],
        "slo": dict.fromkeys(("high", "mid", "low"), SLO),
    }
)
# The models of the issue, with their true sizes in order: bytes of weights, bits, right answers of 50.
MODELS = {"tiny": (700_000, 4, 1), "smol-4bit": (84 * MIB, 4, 30), "smol-8bit": (150 * MIB, 8, 40)}
TIERS = {"ada": "high", "bob": "mid", "cyd": "low"}
RAM = {"ada": 12 * GIB, "bob": 6 * GIB, "cyd": 3 * GIB}

Cell = Callable[..., CellRecord]


@pytest.fixture
def one(make: ModuleType) -> Cell:
    """A cell at the SLO's prompt length, as it would be written; unless said otherwise it keeps the whole SLO."""

    def build(
        name: str,
        model: str = "smol-4bit",
        *,
        tier: str | None = None,
        soak: bool = False,
        ttft: float = 900.0,
        peak: int = 300 * MIB,
        free: int = 2 * GIB,
        ratio: float = 0.8,
        hot: float = 41.0,
        right: int | None = None,
        asked: int = 50,
        ram: int | None = 0,
        context: str = "shell",
        **over: Any,
    ) -> CellRecord:
        weights, bits, known = MODELS[model]
        config = {
            "prompt_tokens": 256,
            **({"kind": "sustained", "duration_s": 60.0} if soak else {}),
            **over.pop("config", {}),
        }
        made = make.record(name, model=model, config=config, **over)
        phone = made.phone.model_copy(
            update={
                "tier": tier or TIERS[name],
                "ram_bytes": RAM.get(name, 8 * GIB) if ram == 0 else ram,
                "context": context,
            }
        )
        what = made.model.model_copy(update={"hash": f"hash-{model}", "weight_bytes": weights, "quant_bits": bits})
        changes: dict[str, Any] = {"phone": phone, "model": what}
        if made.metrics is not None and made.thermal is not None and made.output is not None:
            assert made.metrics.ttft_ms is not None
            changes["metrics"] = made.metrics.model_copy(
                update={
                    "ttft_ms": made.metrics.ttft_ms.model_copy(update={"max": ttft}),
                    "peak_rss_bytes": peak,
                    "min_available_bytes": free,
                }
            )
            changes["thermal"] = made.thermal.model_copy(
                update={"max_c": hot, "sustained_ratio": ratio if soak else None}
            )
            golden = None if soak or right == -1 else f"{known if right is None else right}/{asked}"
            if golden is None:
                changes["nulls"] = {**made.nulls, **dict.fromkeys(("golden", "golden_set"), "it was asked nothing")}
            changes["output"] = made.output.model_copy(update={"golden": golden, "golden_set": golden and SET})
        return made.model_copy(update=changes)

    return build


@pytest.fixture
def both(one: Cell) -> Callable[..., list[CellRecord]]:
    """A burst and a soak of one configuration."""
    return lambda *given, **over: [one(*given, **over), one(*given, soak=True, **over)]


@pytest.fixture
def report(make: ModuleType) -> Callable[..., Any]:
    """What a run of these records is written as, checked against its schema, by tier."""

    def build(records: list[CellRecord], *, facts: dict[str, Any] | None = None, rules: TierRules = RULES) -> Any:
        phones = list({record.phone.id: record.phone for record in records}.values())
        known = {"opencl": "/vendor/lib64/libOpenCL.so", "opencl_public": ["libOpenCL.so"], **(facts or {})}
        head = make.info(*(phone.name for phone in phones))
        fleet = tuple(
            member.model_copy(update={"phone": phone, "facts": {**member.facts, **known}, "tier_because": "it fits"})
            for member, phone in zip(head.fleet if phones else (), phones, strict=True)
        )
        written = document(tiers_of(head.model_copy(update={"fleet": fleet}), records, rules))
        plain = json.loads(written.model_dump_json(by_alias=True))
        jsonschema.Draft202012Validator(json.loads(schema_text())).validate(plain)
        return {**plain, **{tier["tier"]: tier for tier in plain["tiers"]}}

    return build


def chosen(decision: Any) -> tuple[str, str, int] | None:
    best = decision["recommended"]
    return None if best is None else (best["model"], best["backend"], best["threads"])


def why(decision: Any, model: str, backend: str = "cpu") -> tuple[list[str], str]:
    [out] = [out for out in decision["ruled_out"] if (out["model"], out["backend"]) == (model, backend)]
    return out["by"], out["because"]


def test_three_phones_and_three_models_get_what_their_properties_demand(both: Any, report: Any) -> None:
    records = [
        # fast, roomy, cool: everything runs, the largest is taken
        *both("ada", "tiny", tps=900), *both("ada", "smol-4bit", tps=90), *both("ada", "smol-8bit", tps=60),
        # too little memory for 8 bits
        *both("bob", "tiny", tps=500), *both("bob", "smol-4bit", tps=40),
        *both("bob", "smol-8bit", tps=30, free=700 * MIB),
        # slow and hot: 8 bits are too slow, 4 bits do not last; tiny lasts and knows nothing
        *both("cyd", "tiny", tps=200), *both("cyd", "smol-4bit", tps=12, ratio=0.4, hot=61.0),
        *both("cyd", "smol-8bit", tps=7, hot=63.0),
    ]  # fmt: skip
    found = report(records)
    assert {tier: chosen(found[tier]) for tier in ("high", "mid", "low")} == {
        "high": ("smol-8bit", "cpu", 1),
        "mid": ("smol-4bit", "cpu", 1),
        "low": None,
    }
    assert [chosen(phone) for phone in found["phones"]] == [chosen(found[tier]) for tier in ("high", "mid", "low")]
    assert [run["configuration"]["model"] for run in found["high"]["runners_up"]] == ["smol-4bit"]
    assert why(found["high"], "tiny") == (
        ["golden"],
        "on Model ada: share of right answers 2.0 % (1/50 right); at least 50.0 % is promised",
    )
    assert why(found["mid"], "smol-8bit") == (
        ["min_available_bytes"],
        "on Model bob: least free memory of the phone 700 MiB; at least 1.00 GiB is promised",
    )
    assert why(found["low"], "smol-4bit")[0] == ["sustained_ratio"]
    assert why(found["low"], "smol-8bit")[0] == ["decode_tps"]
    assert found["low"]["because"].startswith(
        "no configuration met the SLO: use the server, or a simpler feature (closest: smol-8bit, CPU low / low, "
        "1 thread: decode speed 7.00 tok/s; at least 10.0 tok/s is promised"
    )
    assert found["mid"]["what_if"] == [
        "with 1 GiB more memory, smol-8bit, CPU low / low, 1 thread would meet the SLO on Model bob: "
        "324 MiB are missing"
    ]
    assert found["high"]["expected"] == {
        "ttft_ms_worst_phone": 900.0, "decode_tps_worst_phone": 60.0, "sustained_ratio": 0.8,
        "peak_rss_bytes": 300 * MIB, "min_available_bytes": 2 * GIB, "max_c": 41.0, "golden": 0.8,
        "proven_on": 1, "tried_on": 1,
    }  # fmt: skip


def test_the_larger_model_comes_before_the_faster_one_and_speed_before_memory_and_heat(both: Any, report: Any) -> None:
    records = [
        *both("ada", "smol-8bit", tps=20), *both("ada", "smol-4bit", tps=90),
        *both("ada", "smol-8bit", tps=40, threads=4, peak=900 * MIB, hot=50),
    ]  # fmt: skip
    assert chosen(report(records)["high"]) == ("smol-8bit", "cpu", 4)


def test_of_equal_speed_the_smaller_then_the_cooler_then_the_one_with_fewer_threads_wins(
    both: Any, report: Any
) -> None:
    def best(*over: dict[str, Any]) -> Any:
        given = [both("ada", **{"tps": 50 + n / 2, "threads": 8 - n, **more}) for n, more in enumerate(over)]
        forward, backward = ([each for group in order for each in group] for order in (given, given[::-1]))
        assert chosen(report(forward)["high"]) == chosen(report(backward)["high"])
        return report(forward)["high"]["recommended"]["threads"]

    assert best({"peak": 200 * MIB, "hot": 50}, {"hot": 40}) == 8
    assert best({"hot": 39}, {"hot": 40}) == 8
    assert best({}, {}, {}) == 6
    assert best({"tps": 53, "threads": 8}, {"tps": 51.5, "threads": 4}, {"tps": 51.3, "threads": 1}) == 4, "3 %"


def test_a_configuration_must_keep_the_slo_on_every_phone_that_measured_it(both: Any, report: Any) -> None:
    records = [
        *both("ada", "smol-8bit", tps=60), *both("eve", "smol-8bit", tier="high", tps=9),
        *both("ada", "smol-4bit", tps=90), *both("eve", "smol-4bit", tier="high", tps=30),
        *both("fay", "smol-4bit", tier="high", tps=35, ttft=1500.0),
    ]  # fmt: skip
    high = report(records)["high"]
    assert (chosen(high), high["phones"]) == (("smol-4bit", "cpu", 1), 3)
    assert (high["expected"]["proven_on"], high["expected"]["decode_tps_worst_phone"]) == (3, 30.0)
    assert high["expected"]["ttft_ms_worst_phone"] == 1500.0
    assert why(high, "smol-8bit") == (
        ["decode_tps"],
        "on Model eve: decode speed 9.00 tok/s; at least 10.0 tok/s is promised",
    )


def test_a_phone_that_refuses_it_is_an_exception_with_its_own_choice(both: Any, one: Cell, report: Any) -> None:
    records = [
        *(each for name in ("ada", "eve") for each in both(name, tier="high", backend="opencl", threads=68, tps=80)),
        *(each for name in ("ada", "eve", "fay") for each in both(name, tier="high", threads=4, tps=40)),
        one("fay", tier="high", backend="opencl", threads=68, reason=Reason.BACKEND_FALLBACK, detail="CPU ran"),
    ]
    found = report(records)
    high = found["high"]
    assert chosen(high) == ("smol-4bit", "opencl", 68)
    [exception] = high["exceptions"]
    assert exception["because"] == "backend_fallback: the engine ran another backend than asked (CPU ran)"
    assert (exception["id"], exception["instead"]["backend"]) == ("id-of-fay", "cpu")
    fay = found["phones"][-1]
    assert (fay["exceptions"], chosen(fay)) == ([exception], ("smol-4bit", "cpu", 4))
    assert (high["expected"]["proven_on"], high["expected"]["tried_on"]) == (2, 3)


def test_a_faster_backend_without_proof_on_most_phones_is_named_with_what_it_would_bring(
    both: Any, one: Cell, report: Any
) -> None:
    records = [
        *(each for name in ("ada", "eve", "fay") for each in both(name, tier="high", threads=4, tps=40)),
        *both("ada", tier="high", backend="opencl", threads=68, tps=72),
        *(one(name, tier="high", backend="opencl", threads=68, reason=Reason.CRASH) for name in ("eve", "fay")),
        *(one(name, tier="high", backend="vulkan", reason=Reason.BACKEND_NOT_BUILT) for name in ("ada", "eve")),
    ]
    high = report(records)["high"]
    assert chosen(high) == ("smol-4bit", "cpu", 4)
    assert high["what_if"] == [
        "OpenCL would be 1.80 times as fast on 1 phone, but has no proof on 2 of 3 phones",
        "Vulkan has no proof on any of the 2 phones that tried it: backend_not_built",
    ]
    assert why(high, "smol-4bit", "opencl")[1].startswith("on 2 of 3 phones, Model eve: crash: the runner was killed")


def test_what_apps_may_not_load_is_ruled_out_and_what_is_unknown_is_marked(both: Any, report: Any) -> None:
    records = [*both("ada", backend="opencl", threads=68, tps=80), *both("ada", threads=4, tps=40)]
    assert report(records)["high"]["recommended"]["apps"] is True
    high = report(records, facts={"opencl_public": []})["high"]
    assert chosen(high) == ("smol-4bit", "cpu", 4)
    assert why(high, "smol-4bit", "opencl") == (
        ["not_for_apps"],
        "on Model ada: apps may not load libOpenCL.so: the phone does not list it as public",
    )
    assert high["what_if"] == [
        "OpenCL would be 2.00 times as fast on 1 phone, but apps may not load libOpenCL.so: "
        "the phone does not list it as public"
    ]
    best = report(records, facts={"opencl_public": None})["high"]["recommended"]
    assert (best["backend"], best["apps"]) == ("opencl", None)
    assert best["apps_because"] == "whether apps may load OpenCL is not known (not told)"


def test_measured_in_an_app_the_apps_own_figures_hold(both: Any, report: Any) -> None:
    found = report(both("ada", backend="opencl", context="app", tps=80), facts={"opencl_public": []})
    assert (found["context"], chosen(found["high"])) == ("app", ("smol-4bit", "opencl", 1))


def test_missing_data_recommends_nothing_says_what_to_measure_and_names_the_likeliest(one: Cell, report: Any) -> None:
    high = report([one("ada", right=-1), one("ada", "tiny")])["high"]
    assert chosen(high) is None
    assert high["because"] == (
        "no configuration is proven to meet the SLO. smol-4bit, CPU low / low, 1 thread meets what is known of it; "
        "not known: sustained over burst speed (no valid sustained cell: run the plan soak too); "
        "share of right answers (it was asked no golden set)"
    )
    assert high["provisional"]["configuration"]["model"] == "smol-4bit"
    assert (high["provisional"]["expected"]["proven_on"], high["provisional"]["expected"]["tried_on"]) == (0, 1)


def test_an_unknown_amount_of_memory_is_neither_met_nor_missed(both: Any, report: Any) -> None:
    high = report(both("ada", ram=None))["high"]
    assert chosen(high) is None
    assert high["ruled_out"] == []
    assert high["provisional"]["not_known"] == [
        "share of the phone's RAM at the peak not known (the record does not tell the phone's RAM); "
        "at most 25.0 % is promised"
    ]


@pytest.mark.parametrize("config", [{"prompt_tokens": 64}, {"context_tokens": 1024}])
def test_only_the_promised_prompt_length_with_nothing_before_it_counts(
    one: Cell, report: Any, config: dict[str, int]
) -> None:
    why = "no burst cell of this length: run one with --prompt-tokens 256"
    high = report([one("ada", config=config), one("ada", soak=True)])["high"]
    assert high["provisional"]["not_known"] == [
        f"time to first token not known ({why}); at most 2\u202f000 ms is promised",
        f"decode speed not known ({why}); at least 10.0 tok/s is promised",
    ]
    bare = report([one("ada", config=config, right=-1)])["high"]
    assert (chosen(bare), bare["provisional"]) == (None, None), "of what nothing is known nothing is likely"
    assert bare["because"] == (
        "nothing is proven of what the SLO promises; not known: time to first token, decode speed, share of the "
        f"phone's RAM at the peak and least free memory of the phone ({why}); sustained over burst speed "
        "(no valid sustained cell: run the plan soak too); share of right answers (it was asked no golden set)"
    )
    assert [out["by"] for out in bare["ruled_out"]] == [["not_known"]]


def test_a_noisy_cell_proves_nothing_and_rules_nothing_out(both: Any, report: Any) -> None:
    [burst, soak] = both("ada")
    noisy = burst.model_copy(update={"verdict": Reason.NOISY.verdict, "reason": "noisy", "fault": Reason.NOISY.fault})
    high = report([noisy, soak])["high"]
    assert chosen(high) is None
    assert high["provisional"]["not_known"][0].startswith("time to first token not known (noisy there)")


def test_a_crash_rules_a_configuration_out_and_one_after_a_long_history_is_a_warning(
    both: Any, one: Cell, report: Any
) -> None:
    good = both("ada", threads=4)
    crash = one("ada", threads=4, reason=Reason.CRASH, config={"generate_tokens": 512}, detail="signal 11")
    high = report([*good, crash])["high"]
    assert why(high, "smol-4bit") == (
        ["crash"], "on Model ada: crash: the runner was killed by a signal (signal 11)"
    )  # fmt: skip
    deep = one("ada", threads=4, reason=Reason.OUT_OF_MEMORY, config={"context_tokens": 4096})
    best = report([*good, deep])["high"]["recommended"]
    assert best["warnings"] == ["after 4096 tokens of history: out_of_memory: the phone ran out of memory"]


def test_worse_answers_than_the_same_model_gives_otherwise_rule_out(both: Any, report: Any) -> None:
    records = [*both("ada", tps=90, right=30), *both("ada", precision="high", tps=40, right=45)]
    high = report(records)["high"]
    assert high["recommended"]["precision"] == "high"
    assert why(high, "smol-4bit") == (["wrong_answers"], "on Model ada: answers 30/50, best 45/50")


def test_all_rows_refused_recommend_nothing_and_tell_every_reason(one: Cell, report: Any) -> None:
    records = [
        one("cyd", "smol-8bit", reason=Reason.MODEL_TOO_BIG, detail="it needs 2.1 GiB, 1.0 GiB are free"),
        one("cyd", "smol-4bit", reason=Reason.OUT_OF_MEMORY),
        one("cyd", "tiny", reason=Reason.OUTPUT_WRONG),
    ]
    low = report(records)["low"]
    assert chosen(low) is None
    assert low["because"] == "no configuration met the SLO: use the server, or a simpler feature"
    assert [out["by"] for out in low["ruled_out"]] == [["model_too_big"], ["out_of_memory"], ["output_wrong"]]
    assert low["what_if"] == [
        "with more memory, smol-8bit might run on Model cyd "
        "(model_too_big: the model does not fit in the phone's memory (it needs 2.1 GiB, 1.0 GiB are free))"
    ]


def test_a_tier_without_phones_and_one_without_promises_say_so(both: Any, report: Any) -> None:
    bare = RULES.model_copy(update={"slo": {}})
    assert report(both("ada"))["mid"]["because"] == (
        "no phone of this tier took part: measure one (pytest --devices tier=mid)"
    )
    found = report(both("ada"), rules=bare)
    assert found["high"]["because"] == "the rules promise nothing for this tier: add [slo.high]"
    assert (found["high"]["phones"], found["mid"]["phones"]) == (1, 0)
    assert report([])["high"]["recommended"] is None


def test_figures_that_were_ordered_are_left_out_and_that_is_said(both: Any, report: Any) -> None:
    records = both("ada")
    ordered = [
        each.model_copy(update={"bundle": each.bundle.model_copy(update={"engine": "synthetic"})}) for each in records
    ]
    found = report(ordered)
    assert found["left_out"] == ["2 cells of the synthetic engine: its figures are ordered, not measured"]
    assert (chosen(found["high"]), found["high"]["phones"]) == (None, 1)
    assert found["high"]["because"] == "no configuration was tried"


def test_rules_and_promises_go_along_so_that_an_app_can_place_a_phone(both: Any, report: Any) -> None:
    found = report(both("ada"), rules=load_tier_rules())
    assert found["rules"][0]["when"]["cpu_features"] == ["dotprod", "fp16"]
    assert found["rules"][-1] == {"tier": "low", "when": {"ram_gib_min": 0.0}}
    assert (found["unknown_soc"], found["slo"]["low"]["decode_tps"]) == ("low", 5.0)
    assert (found["phones"][0]["soc"], found["phones"][0]["tier_because"]) == ("SM0000", "it fits")


def test_the_file_is_written_whole_and_its_schema_is_in_step(both: Any, make: ModuleType, tmp_path: Path) -> None:
    kept = data_root() / "profiles" / "tiers.schema.json"
    assert kept.read_text(encoding="utf-8") == schema_text(), "python -m harness.report.tiers_json > that file"
    run = make.run_folder(tmp_path / "run", make.info("ada"), both("ada"))
    path = write_tiers(run)
    assert path == run / "tiers.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    schema = json.loads(kept.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(written)
    assert (written["schema"], written["run_ids"]) == (1, [make.RUN_ID])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({**written, "tiers": [{"tier": "top"}]})


def test_a_file_of_ones_own_has_other_promises(both: Any, make: ModuleType, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[rules]]\ntier = "low"\nwhen = {}\n[slo.high]\nprompt_tokens = 256\ndecode_tps = 40.0\n')
    run = make.run_folder(tmp_path / "run", make.info("ada"), both("ada", tps=48))
    assert json.loads(tiers_json(tiers_of_runs([run], own)))["tiers"][0]["recommended"]["model"] == "smol-4bit"


def test_a_run_of_bursts_and_one_of_soaks_prove_together_what_neither_does_alone(
    both: Any, make: ModuleType, tmp_path: Path
) -> None:
    burst, soak = both("ada", right=45)
    later = soak.model_copy(update={"run_id": "soaks", "started": "2026-01-02T00:00:00Z"})
    bursts = make.run_folder(tmp_path / "bursts", make.info("ada"), [burst])
    soaks = make.run_folder(tmp_path / "soaks", make.info("bob", run_id="soaks"), [later])

    def written(*more: Path) -> Any:
        return json.loads(tiers_json(tiers_of_runs([bursts, *more])))

    assert written()["tiers"][0]["recommended"] is None
    found = written(soaks)
    assert found["tiers"][0]["recommended"]["model"] == "smol-4bit"
    assert (found["run_ids"], len(found["phones"])) == ([make.RUN_ID, "soaks"], 2)


def test_of_a_cell_that_two_runs_measured_the_later_one_counts(both: Any, make: ModuleType) -> None:
    early, _ = both("ada", tps=20)
    late = early.model_copy(update={"run_id": "late", "started": "2026-01-02T00:00:00Z"})
    for order in ([early, late], [late, early]):
        _, records = together([(make.info("ada"), [record]) for record in order])
        assert records == [late]


def test_the_terminal_has_one_line_a_tier(both: Any, make: ModuleType) -> None:
    records = [*both("ada", threads=2), *both("bob", tps=3)]
    found = lines_of(tiers_of(make.info("ada"), records, RULES))
    assert found[0] == "tier high: smol-4bit, CPU low / low, 2 threads, proven on 1 of 1 phone"
    assert found[1].startswith("tier mid: nothing recommended: no configuration met the SLO: use the server")
    assert len(found) == 2
    [line] = lines_of(tiers_of(make.info("ada"), both("ada", right=-1), RULES))
    assert line == (
        "tier high: nothing recommended: smol-4bit, CPU low / low, 1 thread meets what is known of it; "
        "not known: golden"
    )


def test_the_page_shows_tiers_choices_exceptions_and_what_was_ruled_out(
    both: Any, one: Cell, make: ModuleType, parse: Any
) -> None:
    gpu = {"tier": "high", "backend": "opencl", "threads": 68}
    records = [
        *both("ada", **gpu, tps=80, right=45), *both("eve", **gpu, right=45, ttft=1800.0),
        *both("fay", tier="high", tps=20, right=45), *both("ada", "tiny", tps=900),
        one("fay", **gpu, reason=Reason.CRASH, detail="<script>alert(1)</script>"),
    ]  # fmt: skip
    section = parse(report_html(make.info("ada"), records)).one("section", id="tiers")
    rows = [[part.text for part in row.children if not isinstance(part, str)] for row in section.all("tr")]
    assert rows[1] == [
        "smol-4bit, OpenCL low / low recommended whether apps may load OpenCL is not known (not told)",
        "2 of 3 phones", "1 800", "48.0", "0.80", "300 MiB", "2.00 GiB", "41.0", "90.0 %",
    ]  # fmt: skip
    assert rows[2][:2] == ["smol-4bit, CPU low / low, 1 thread runner-up", "1 of 1 phone"]
    [exception] = [item.text.replace(" :", ":", 1) for item in section.all("li", cls="warning")]
    assert exception == (
        "fay: smol-4bit, OpenCL low / low: crash: the runner was killed by a signal (<script>alert(1)</script>). "
        "Use instead: smol-4bit, CPU low / low, 1 thread"
    )
    assert "no phone of this tier took part" in section.text
    assert section.one("h3", id="tier-high").text == "high 3 phones"
    assert "Promised at 256 prompt tokens: time to first token at most 2 500 ms, decode speed" in section.text
    assert rows[-1][:3] == ["fay", "high", "smol-4bit, CPU low / low, 1 thread"]
