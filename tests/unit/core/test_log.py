from __future__ import annotations

import logging

import pytest

from harness.core.log import phone_logger


def test_each_message_names_the_phone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "harness.toy"):
        phone_logger("harness.toy", "toy-1").info("pushed %d bytes, 100 %%", 7)
    assert [record.getMessage() for record in caplog.records] == ["[toy-1] pushed 7 bytes, 100 %"]


def test_a_phone_with_a_percent_sign_in_its_name_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "harness.toy"):
        phone_logger("harness.toy", "toy%s").info("x")
    assert [record.getMessage() for record in caplog.records] == ["[toy%s] x"]
