"""Everything that can be wrong with a plan is one sentence: where, which key, what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ConfigError
from harness.plan.load import find_plan, load_plan, plan_names
from harness.plan.model import Cool, Preparation

GOOD = 'models = ["toy"]\nbackends = ["cpu"]\nthreads = [4]\n'


def complaint(tmp_path: Path, text: str, overrides: dict[str, tuple[str, Any]] | None = None) -> str:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_plan(file, overrides)
    said = str(caught.value)
    assert "\n" not in said
    return said.replace(f"{file}: ", "FILE: ")


def test_a_plan_with_the_least_there_must_be_has_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    plan = load_plan(file)
    assert (plan.models, plan.repeats, plan.warmups, plan.precision, plan.cv_limit) == (["toy"], 5, 1, ["low"], None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            GOOD + "thread = [2]\n",
            "FILE: unknown key 'thread'; did you mean 'threads'? keys here are schema, kind, models, backends,",
        ),
        (GOOD + "zzz = 1\n", "FILE: unknown key 'zzz'; keys here are schema, kind, models,"),
        (GOOD + "int = 3\n", "FILE: unknown key 'int'; "),
        (GOOD + '"a[b" = 3\n', "FILE: unknown key 'a[b'; "),
        (GOOD + "[engine]\nuse_map = true\n", "FILE: unknown key 'engine.use_map'; did you mean 'use_mmap'? keys here"),
        (
            GOOD + "[cool]\nbelow = 3\n",
            "FILE: unknown key 'cool.below'; did you mean 'below_c'? keys here are below_c,",
        ),
        (
            GOOD + '[[ask]]\nquestion = "x"\nexpect = "y"\ntokens = 3\n',
            "FILE: unknown key 'ask.0.tokens'; did you mean 'max_tokens'? keys here are question, expect, max_tokens",
        ),
        ("models = []\n" + GOOD.split("\n", 1)[1], "FILE: models needs at least one value"),
        (GOOD.split("\n", 1)[1], "FILE: the key 'models' is missing"),
        ("", "FILE: the key 'models' is missing (and 2 more)"),
        (GOOD.replace("[4]", '["4"]'), "FILE: threads.0: input should be a valid integer, not '4'"),
        (GOOD.replace("[4]", "4"), "FILE: threads: input should be a valid list, not 4"),
        (GOOD.replace("[4]", "[true]"), "FILE: threads.0: input should be a valid integer, not True"),
        (GOOD.replace("[4]", "[0]"), "FILE: threads.0: input should be greater than or equal to 1, not 0"),
        (GOOD.replace("[4]", "[65]"), "FILE: threads.0: input should be less than or equal to 64, not 65"),
        (GOOD.replace("[4]", "[4, 2, 4]"), "FILE: threads: 4 is there twice"),
        (GOOD.replace('"toy"', '"a", "a"'), "FILE: models: 'a' is there twice"),
        (
            GOOD.replace('"cpu"', '"cpu", "npu"'),
            "FILE: backends.1: input should be 'cpu', 'opencl' or 'vulkan', not 'npu'",
        ),
        (GOOD + 'kind = "forever"\n', "FILE: kind: input should be 'burst', 'sustained' or 'tensor', not 'forever'"),
        (GOOD + "schema = 2\n", "FILE: schema: input should be 1, not 2"),
        (GOOD + "repeats = 0\n", "FILE: repeats: input should be greater than or equal to 1, not 0"),
        (GOOD + "generate_tokens = [1]\n", "FILE: generate_tokens.0: input should be greater than or equal to 2"),
        (GOOD + "cv_limit = 1.5\n", "FILE: cv_limit: input should be less than 1, not 1.5"),
        (GOOD + "cv_limit = nan\n", "FILE: cv_limit: input should be a finite number, not nan"),
        (GOOD + "cell_timeout_s = inf\n", "FILE: cell_timeout_s: input should be a finite number, not inf"),
        (GOOD + "cell_timeout_s = 1e300\n", "FILE: cell_timeout_s: input should be less than or equal to 604800"),
        (GOOD + "[cool]\ntimeout_s = inf\n", "FILE: cool.timeout_s: input should be a finite number, not inf"),
        (GOOD + "[cool]\nplateau_max_c = 40.0\n", "FILE: cool: plateau_max_c needs plateau_c_per_min"),
        (
            GOOD + "[cool]\nplateau_c_per_min = 0.5\nplateau_max_c = 37.5\n",
            "FILE: cool: plateau_max_c is 37.5, less than below_c (38)",
        ),
        (GOOD + "[cool]\nplateau_c_per_min = 0.0\n", "FILE: cool.plateau_c_per_min: input should be greater than 0"),
        (
            GOOD + "[prepare]\nscreen_on = true\n",
            "FILE: unknown key 'prepare.screen_on'; did you mean 'screen'? keys here are battery_floor_pct,",
        ),
        (
            GOOD + '[prepare]\nscreen = "dim"\n',
            "FILE: prepare.screen: input should be 'on', 'off' or 'keep', not 'dim'",
        ),
        (GOOD + "[prepare]\nairplane = 1\n", "FILE: prepare.airplane: input should be a valid boolean, not 1"),
        (
            GOOD + "[prepare]\nbattery_floor_pct = 101\n",
            "FILE: prepare.battery_floor_pct: input should be less than or equal to 100, not 101",
        ),
        (
            GOOD + "[prepare]\ncharge_timeout_s = -1.0\n",
            "FILE: prepare.charge_timeout_s: input should be greater than or equal to 0",
        ),
        (GOOD + 'cool = "yes"\n', "FILE: cool: input should be a valid dictionary"),
        (GOOD + 'priority = ["speed"]\n', "FILE: priority.0: input should be 'models', 'backends', 'threads',"),
        (GOOD + "[engine]\nuse_mmap = []\n", "FILE: engine.use_mmap: a list to sweep needs at least one value"),
        (GOOD + '[engine]\nuse_mmap = "yes"\n', "FILE: engine.use_mmap: input should be a valid boolean, not 'yes'"),
        (GOOD + '[[ask]]\nquestion = "x"\nexpect = "("\n', "FILE: ask.0.expect: it is no regular expression"),
        (GOOD + '[[ask]]\nquestion = "x"\n', "FILE: the key 'ask.0.expect' is missing"),
        (
            GOOD + "context_tokens = [-1]\n",
            "FILE: context_tokens.0: input should be greater than or equal to 0, not -1",
        ),
        (GOOD + 'affinity = ["fast"]\n', "FILE: affinity.0: string should match pattern"),
        (GOOD + 'kind = "sustained"\n', "FILE: a sustained plan needs duration_s, and only a sustained one has it"),
        (GOOD + "duration_s = 9.0\n", "FILE: a sustained plan needs duration_s, and only a sustained one has it"),
        (
            GOOD + 'kind = "sustained"\nduration_s = 600.0\n',
            "FILE: cell_timeout_s is 600: it must be longer than duration_s",
        ),
        (GOOD + "repeats_max = 9\n", "FILE: repeats_max needs cv_limit"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    assert complaint(tmp_path, text).startswith(says)


def test_without_a_table_phones_are_prepared_as_an_app_is_used_and_the_rest_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    assert load_plan(file).prepare == Preparation(
        battery_floor_pct=20,
        charge_timeout_s=1800.0,
        screen="on",
        stay_awake=True,
        doze_off=True,
        animations_off=False,
        airplane=False,
    )
    assert load_plan(find_plan("quick")).prepare == Preparation()


def test_a_plateau_is_hot_five_degrees_above_the_limit_unless_the_plan_says_otherwise() -> None:
    assert Cool(below_c=36.0, plateau_c_per_min=0.5).plateau_limit_c == 41.0
    assert Cool(below_c=36.0, plateau_c_per_min=0.5, plateau_max_c=36.0).plateau_limit_c == 36.0


def test_a_second_mistake_is_counted_once_however_many_types_a_key_may_have(tmp_path: Path) -> None:
    assert complaint(tmp_path, GOOD + "repeats = 0\n[engine]\nchunk = 'x'\n").endswith("(and 1 more)")
    assert "more)" not in complaint(tmp_path, GOOD + "[engine]\nchunk = 'x'\n")


def test_a_mistake_on_the_command_line_names_the_option(tmp_path: Path) -> None:
    said = complaint(tmp_path, GOOD, {"threads": ("--threads 0", [0])})
    assert said == "--threads 0: threads.0: input should be greater than or equal to 1, not 0"
    assert (
        complaint(tmp_path, GOOD, {"threads": ("--threads ''", [])}) == "--threads '': threads needs at least one value"
    )


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    plan = load_plan(file, {"threads": ("--threads 1,2", [1, 2]), "repeats": ("--repeats 9", 9)})
    assert (plan.threads, plan.repeats, plan.models) == ([1, 2], 9, ["toy"])


@pytest.mark.parametrize("name", ["smoke", "quick", "full"])
def test_the_plans_that_come_with_the_product_are_good(name: str) -> None:
    assert name in plan_names()
    plan = load_plan(find_plan(name))
    assert plan.backends == ["cpu", "opencl", "vulkan"]
    assert plan.repeats >= 3


def test_a_plan_is_found_by_name_or_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    assert find_plan("smoke").name == "smoke.toml"
    assert find_plan(str(tmp_path / "mine.toml")) == tmp_path / "mine.toml"
    monkeypatch.chdir(tmp_path)
    assert find_plan("mine.toml") == Path("mine.toml")


@pytest.mark.parametrize("name", ["smokey", "", "./smoke", "/nowhere/x.toml"])
def test_a_plan_that_is_not_there_is_told_with_those_that_are(name: str) -> None:
    with pytest.raises(ConfigError, match=r"there is no such plan or file: plans are full, quick, smoke"):
        find_plan(name)
