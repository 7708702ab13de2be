from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.virtual.mailbox import Mailbox, asked_folder, now_folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    now_folder(tmp_path).mkdir()
    asked_folder(tmp_path).mkdir()
    return tmp_path


def test_a_request_is_read_once(run: Path) -> None:
    mailbox = Mailbox(run)
    assert mailbox.new_request() is None
    (asked_folder(run) / "asked.json").write_text('{"number": 3, "stay_on": 7}')
    assert mailbox.new_request() == {"number": 3, "stay_on": 7}
    assert mailbox.last_number == 3
    assert mailbox.new_request() is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", '{"number": "x"}', "{}", "[" * 5000, '{"number": 1}' + " " * 70000]
)
def test_what_is_no_request_is_ignored(run: Path, content: str) -> None:
    (asked_folder(run) / "asked.json").write_text(content)
    assert Mailbox(run).new_request() is None


def test_a_link_out_of_the_phone_is_not_followed(run: Path) -> None:
    (run / "secret").write_text('{"number": 1}')
    (asked_folder(run) / "asked.json").symlink_to(run / "secret")
    assert Mailbox(run).new_request() is None


def test_the_state_is_replaced_as_a_whole(run: Path) -> None:
    mailbox = Mailbox(run)
    mailbox.publish({"step": 1})
    first = (now_folder(run) / "now.json").open()
    mailbox.publish({"step": 2})
    assert json.load(first) == {"step": 1}
    assert json.loads((now_folder(run) / "now.json").read_text()) == {"step": 2}
