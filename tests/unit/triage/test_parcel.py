"""Files for strangers: bounded, listed, masked, and with names that lead nowhere."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.triage.parcel import (
    Member,
    Missing,
    as_json,
    bounded,
    contents_of,
    manifest,
    redact_members,
    safe_name,
    safe_path,
    within,
    zipped,
)
from harness.triage.readers.crash import Frame
from harness.triage.redact import Redactor


def test_a_long_text_keeps_its_begin_and_its_end_and_says_what_is_missing() -> None:
    text = b"first" + b"." * 10_000 + b"last"
    kept, cut = bounded(text, 1000)
    assert len(kept) == 1000
    assert kept.startswith(b"first.")
    assert kept.endswith(b".last")
    assert b"\n[mnn-farm left out what stood here]\n" in kept
    left = 10_009 - 1000 + len(b"\n[mnn-farm left out what stood here]\n")
    assert cut == f"{left} of 10009 bytes in its middle"
    assert bounded(text, 20_000) == (text, "")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 300))
def test_nothing_is_ever_longer_than_its_bound(text: bytes, limit: int) -> None:
    kept, cut = bounded(text, limit)
    assert len(kept) <= limit
    assert bool(cut) == (len(text) > limit)


def test_what_does_not_fit_together_stays_out_and_is_named_while_smaller_ones_still_come() -> None:
    members = [Member("a", b"12345", "x"), Member("b", b"1234567", "x"), Member("c", b"12", "x")]
    kept, missing = within(members, 8)
    assert [member.name for member in kept] == ["a", "c"]
    assert missing == [Missing("b", "its 7 bytes did not fit into the bundle any more")]


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("tombstone_03", "tombstone_03"),
        ("../../etc/passwd", "passwd"),
        ("..", "unnamed"),
        ("C:\\x\\.hidden", "hidden"),
        ("a\x00b\n<c>|é", "a_b_c_"),
        ("x" * 300, "x" * 80),
        ("", "unnamed"),
    ],
)
def test_a_name_from_a_phone_leads_nowhere(name: str, safe: str) -> None:
    assert safe_name(name) == safe


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_no_path_leads_out(path: str) -> None:
    parts = safe_path(path).split("/")
    assert ".." not in parts
    assert not safe_path(path).startswith("/")
    assert safe_path(safe_path(path)) == safe_path(path)


def test_the_manifest_lists_every_file_with_its_hash_and_every_gap_with_its_reason() -> None:
    member = Member("evidence/a.log", b"abc", "a log", "5 of 8 bytes in its middle", evidence=True)
    assert json.loads(manifest({"run_id": "r"}, [member], [Missing("dmesg", "it is denied")])) == {
        "schema": 1,
        "run_id": "r",
        "files": [
            {
                "name": "evidence/a.log",
                "bytes": 3,
                "sha256": hashlib.sha256(b"abc").hexdigest(),
                "source": "a log",
                "cut": "5 of 8 bytes in its middle",
                "evidence": True,
            }
        ],
        "missing": [{"what": "dmesg", "why": "it is denied"}],
    }


def test_a_serial_that_one_file_names_is_masked_in_all_and_in_their_names() -> None:
    members = [
        Member("log-R58N12ABCDE.txt", b"about R58N12ABCDE\n", "x"),
        Member("adb.txt", b"List of devices attached\nR58N12ABCDE\tdevice\n", "x"),
        Member("mine.csv", b"R58N12ABCDE,490154203237518\n", "x", ours=True),
        Member("a.json", b'{"x": "10.0.0.1:1"}', "x"),
    ]
    assert [(one.name, one.data) for one in redact_members(members, Redactor())] == [
        ("log-serial-1.txt", b"about <serial-1>\n"),
        ("adb.txt", b"List of devices attached\n<serial-1>\tdevice\n"),
        ("mine.csv", b"<serial-1>,490154203237518\n"),
        ("a.json", b'{"x": "<ip-1>:1"}'),
    ]


def test_the_same_files_are_the_same_zip_and_hostile_names_are_tame_in_it() -> None:
    members = [Member("../../x", b"1", "a"), Member("x", b"2", "a"), Member("d/y", b"\xff\x00", "a")]
    made = zipped(members)
    assert made == zipped(members)
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {"x": b"1", "d/y": b"\xff\x00"}


def test_a_manifest_tells_triage_what_to_read_and_how_frames_are_called() -> None:
    head = {"frames": [{"path": "/x/libMNN.so", "pc": "a1b2", "function": "MNN::Session::resize+4"}]}
    members = [Member("a.log", b"", "x", evidence=True), Member("b.log", b"", "x")]
    contents = contents_of(manifest(head, members, ()))
    assert contents is not None
    assert contents.evidence == ("a.log",)
    assert contents.name(Frame(0, "/x/libMNN.so", pc="a1b2")) == "MNN::Session::resize+4"
    assert contents.name(Frame(0, "/x/libMNN.so", pc="a1b3")) is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"schema": 2}', b'{"schema": 1, "files": [3]}', b"[" * 100_000])
def test_what_is_no_manifest_tells_nothing(data: bytes) -> None:
    assert contents_of(data) is None


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(["schema", "files", "name", "evidence", "frames", "path", "pc", "function"]),
            inside,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries({"schema": st.just(1), "files": _ANYTHING}, optional={"frames": _ANYTHING}))
def test_no_manifest_breaks_the_reader(document: dict[str, object]) -> None:
    contents = contents_of(json.dumps(document).encode())
    if contents is not None:
        assert all(isinstance(name, str) for name in contents.evidence)
        assert contents.name(Frame(0, "/x", pc="1")) is None or contents.functions


def test_texts_that_are_no_unicode_do_not_break_a_document() -> None:
    assert json.loads(as_json({"a": "\udcff"})) == {"a": "\udcff"}
