"""Verbs that are imported when they are called: what the list says of them is what they say."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from harness.cli import VERBS, app
from harness.commands.lazy import Verb, loaded

# What one verb or another needs and a list of verbs does not.
HEAVY = ("pandas", "numpy", "pydantic", "jinja2", "adbutils", "elftools")


@pytest.mark.parametrize("verb", VERBS, ids=[verb.name for verb in VERBS])
def test_the_line_in_the_list_is_the_first_line_of_its_help(verb: Verb) -> None:
    help_text = loaded(verb).help or ""
    assert help_text.split("\n\n")[0].replace("\n", " ").strip() == verb.says


def test_the_list_imports_no_verb() -> None:
    program = (
        "import sys; from harness.cli import app\n"
        "try: app(['--help'])\n"
        f"except SystemExit: print('heavy:', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("heavy: []\n")
    assert all(verb.name in done.stdout for verb in VERBS)


def test_a_verb_with_a_typo_is_told_its_neighbour() -> None:
    assert "Did you mean 'triage'" in CliRunner().invoke(app, ["triag"]).output
