from __future__ import annotations

import struct
from dataclasses import replace
from types import ModuleType

import pytest

from harness.core.resources import data_root
from harness.payload.mnn_tokenizer import MnnTokenizer, read_tokenizer

TINY = data_root() / "profiles" / "models" / "tiny-llama" / "tokenizer.mtok"
TEXT = b"SGk= 0 1\n" * 20


def test_the_shipped_tokenizer_is_read_whole() -> None:
    found = read_tokenizer(TINY.read_bytes())
    assert replace(found, texts=None) == MnnTokenizer(4, (0, 2, 1), (2,), (), 640, 640, None)
    assert found.texts is not None
    assert {b"<|im_end|>", b"The", b"What"} < found.texts


def test_special_stop_and_prefix_ids_and_both_counts_are_told(kit: ModuleType) -> None:
    found = read_tokenizer(kit.mtok(5, {5: b"<end>", 9: b"<picture>"}, stop=[5], prefix=[3]))
    texts = frozenset([b"t0", b"t1", b"t2", b"t3", b"t4", b"<end>", b"<picture>"])
    assert found == MnnTokenizer(4, (5, 9), (5,), (3,), 10, 5, texts)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_text_format_counts_its_tokens_in_its_fourth_line(kit: ModuleType, kind: int) -> None:
    data = kit.header(kind, special=[18, 19], stop=[19]) + b"20\n" + TEXT
    assert read_tokenizer(data) == MnnTokenizer(kind, (18, 19), (19,), (), 20, 18, None)


def test_a_hugging_face_one_has_merges_behind_its_tokens(kit: ModuleType) -> None:
    data = kit.header(3) + b"10 10\n" + TEXT
    assert read_tokenizer(data) == MnnTokenizer(3, (), (), (), 10, 10, None)
    with pytest.raises(ValueError, match="it is cut off: it counts 20 lines and has 10"):
        read_tokenizer(kit.header(3) + b"10 10\n" + TEXT[: len(TEXT) // 2])


def test_a_text_format_that_was_saved_on_windows_is_the_same(kit: ModuleType) -> None:
    data = (kit.header(1, stop=[3]) + b"20\n" + TEXT).replace(b"\n", b"\r\n")
    assert read_tokenizer(data) == MnnTokenizer(1, (), (3,), (), 20, 20, None)


def test_a_token_that_the_exporter_counts_and_does_not_write_is_forgiven(kit: ModuleType) -> None:
    assert read_tokenizer(kit.header(0) + b"21\n" + TEXT.rstrip(b"\n")).tokens == 21


def test_a_special_token_that_the_model_lacks_is_written_as_a_word() -> None:
    found = read_tokenizer(b"430 1\n2 1 0\n7 None 3\n20\n" + TEXT)
    assert (found.special_ids, found.stop_ids) == ((7,), (3,))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "does not begin with three lines of numbers"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "does not begin with three lines"),
        (b'{\n "model":\n {}\n}', "does not begin with three lines"),
        (b"431 1\n0 0 0\n\n20\n", "begins with 431 instead of 430"),
        (b"430 1\n0 0\n\n20\n", "does not begin with three lines"),
        (b"430 1\n3 1 0\n1 2\n20\n", "counts 4 special ids and has 2"),
        (b"430 1\n-1 1 0\n1 2\n20\n", "special ids"),
        (b"430 1\n0 0 0\n\n", "fourth line does not count its tokens"),
        (b"430 1\n0 0 0\n\nabc\n", "fourth line does not count its tokens"),
        (b"430 1\n0 0 0\n\n0\n", "cut off: it counts 0 lines"),
        (b"430 1\n0 0 0\n\n99\n" + TEXT, "cut off: it counts 99 lines and has 20"),
    ],
)
def test_what_is_no_whole_tokenizer_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_tokenizer(data)


def test_half_a_binary_tokenizer_is_refused_wherever_the_cut_is(kit: ModuleType) -> None:
    whole = kit.mtok()
    start = len(kit.header(4, special=[30, 31], stop=[31]))
    for end in range(start, len(whole)):
        with pytest.raises(ValueError, match=r"cut off after|counts \d+ parts"):
            read_tokenizer(whole[:end])


def text(value: bytes) -> bytes:
    return struct.pack("<H", len(value)) + value


TABLE = struct.pack("<I", 1) + struct.pack("<I", 0xFB01) + text(b"fi")


@pytest.mark.parametrize(
    "before",
    [
        b"\x01\x01\x01",
        b"\x02" + text(b"_") + b"\x02\x01",
        b"\x03" + text(b" ") + text(b"_") + b"\x03" + text(b"_") + b"\x01",
        b"\x04\x02\0\0\0\x05\1\1\0\1\x08\1\1" + b"\x06\x02\0\0\0\x05\x04" + text(b"a|b") + b"\0\x02",
        b"\x06" + TABLE + b"\x05",
        b"\x07\1\1\1\1" + TABLE + b"\0",
        b"\x07\1\1\0\1" + b"\0",
    ],
)
def test_every_kind_of_normalizer_and_splitter_is_stepped_over(kit: ModuleType, before: bytes) -> None:
    assert read_tokenizer(kit.mtok(before=before)).tokens == 32


@pytest.mark.parametrize("after", [b"", struct.pack("<I", 3) + b"abc", bytes(4) + text(b"</s>") + b"\1" + text(b"<s>")])
def test_a_chat_template_may_follow(kit: ModuleType, after: bytes) -> None:
    assert read_tokenizer(kit.mtok(after=after)).tokens == 32


def test_a_part_of_a_newer_mnn_makes_the_count_unknown_and_is_no_fault(kit: ModuleType) -> None:
    assert read_tokenizer(kit.mtok(before=b"\x63\0")) == MnnTokenizer(4, (30, 31), (31,), (), None, None, None)
    assert read_tokenizer(kit.header(5) + b"anything").tokens is None


def test_word_pieces_and_unigrams_are_read_too(kit: ModuleType) -> None:
    def body(model: bytes) -> bytes:
        return bytes(kit.header(4) + b"\0\0" + model + b"\0" + bytes(4))

    pieces = b"\x01" + struct.pack("<I", 1) + text(b"[UNK]") + text(b"##") + bytes(4)
    assert read_tokenizer(body(pieces + text(b"a") + struct.pack("<I", 6))).tokens == 7
    unigrams = b"\x02" + struct.pack("<I", 1) + bytes(5)
    assert read_tokenizer(body(unigrams + text(b"a") + struct.pack("<Id", 3, -1.5))).tokens == 4


def test_parts_that_lie_within_each_other_for_ever_are_refused(kit: ModuleType) -> None:
    with pytest.raises(ValueError, match="within each other"):
        read_tokenizer(kit.header(4) + b"\x04\1\0\0\0" * 5000)
