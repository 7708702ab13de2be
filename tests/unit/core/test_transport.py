from __future__ import annotations

import pytest

from harness.core.errors import ShellError
from harness.core.transport import ShellResult, checked


def test_exit_code_0_is_handed_through() -> None:
    result = ShellResult(0, b"out", b"")
    assert checked(result, "toy-1", ["ls"]) is result


@pytest.mark.parametrize("code", [1, 127, 255])
def test_any_other_is_an_error_with_the_output(code: int) -> None:
    with pytest.raises(ShellError, match=rf"^toy-1: ls ended with {code} \(err\)$") as caught:
        checked(ShellResult(code, b"out", b"err"), "toy-1", ["ls"])
    assert (caught.value.stdout, caught.value.stderr) == (b"out", b"err")
