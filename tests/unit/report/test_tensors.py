"""What a tensor cell says: the worst output counts, and figures show what they tell."""

from __future__ import annotations

from types import ModuleType

import pytest

from harness.report.cells import cell_label, extras, lengths_label
from harness.report.tensors import accuracy_of, cosine_text, error_text, exactness, latency_at, ms_text, stored_of


def test_of_several_outputs_the_worst_counts(make: ModuleType) -> None:
    found = accuracy_of(make.tensor(cosine=0.984, same=0.992, outputs=3))
    assert found is not None
    assert (found.cosine, found.same_positions, found.max_error, found.outputs) == (0.984, 0.992, 0.16, 3)
    assert found.words == (
        "cosine 0.984 (0.974 in the worst sample), 95.2 % of samples decide the same, 99.2 % of decisions and "
        "largest error 0.16 over 25 real inputs, the worst of 3 outputs"
    )


def test_what_holds_no_classes_decides_nothing(make: ModuleType) -> None:
    found = accuracy_of(make.tensor(same=None, samples=1))
    assert found is not None
    assert (found.same_positions, found.same_top1) == (None, None)
    assert found.words == "cosine 0.99990 and largest error 0.16 over 1 real input"


def test_a_cell_of_a_language_model_has_no_accuracy_and_no_latency(make: ModuleType) -> None:
    assert accuracy_of(make.record()) is None
    assert latency_at(make.record(), "p50") is None


def test_random_inputs_and_failures_are_told(make: ModuleType) -> None:
    found = accuracy_of(make.tensor(real=False, samples=8, failed=2, agreeing=1.0))
    assert found is not None
    assert (found.inputs, found.exact) == ("8 random inputs, 2 could not be compared", False)


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (0.99999999, "1"), (0.99987, "0.99987"), (0.9999, "0.99990"), (0.984, "0.984")]
)
def test_a_cosine_has_as_many_digits_as_tell_it_from_one(value: float, text: str) -> None:
    assert cosine_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "0.00"), (0.0042, "0.0042"), (0.5, "0.50"), (12.34, "12.3")])
def test_a_latency_of_microseconds_is_not_rounded_to_nothing(value: float, text: str) -> None:
    assert ms_text(value) == text


def test_errors_have_two_digits() -> None:
    assert [error_text(value) for value in (2.1e-7, 0.1632)] == ["2.1e-07", "0.16"]


def test_the_most_exact_variant_comes_first_and_an_unknown_one_last() -> None:
    assert sorted(["int4", "nf4", "fp32", "int8", "fp16"], key=exactness) == ["fp32", "fp16", "int8", "int4", "nf4"]


def test_where_a_record_does_not_tell_how_weights_are_stored_their_bits_do(make: ModuleType) -> None:
    record = make.tensor(stored="int8")
    assert stored_of(record) == "int8"
    assert stored_of(record.model_copy(update={"model": record.model.model_copy(update={"stored": None})})) == "int8"


def test_a_tensor_cell_is_named_without_tokens(make: ModuleType) -> None:
    record = make.tensor(stored="int8", threads=4)
    assert (lengths_label(record), extras(record)) == ("", ["tensor", "int8 weights"])
    assert cell_label(record) == "ocr-int8 · CPU · 4 threads · low / low · tensor · int8 weights"
