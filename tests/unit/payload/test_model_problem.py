from __future__ import annotations

from pathlib import Path

import pytest

from harness.payload.model_problem import Problem, markdown_table

DOCS = Path(__file__).parents[3] / "docs" / "models.md"


def test_the_page_about_models_holds_the_table_of_the_checks() -> None:
    assert markdown_table() in DOCS.read_text(encoding="utf-8")


def test_a_check_that_nobody_lists_cannot_be_told() -> None:
    with pytest.raises(ValueError, match="no check is called 'wieghts_short'"):
        Problem("wieghts_short", "x")
