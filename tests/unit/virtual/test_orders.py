from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ConfigError, HarnessError
from harness.virtual.orders import OrderSocket, give_order


def _do(order: dict[str, Any]) -> dict[str, Any]:
    if order.get("do") == "fail":
        raise ConfigError("no such thing", remedy="say another")
    return {"did": order["do"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path longer than a socket's address may be."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    return folder / "control"


@pytest.fixture
def orders(path: Path) -> Iterator[OrderSocket]:
    sock = OrderSocket(path)
    yield sock
    sock.close()


def _serve(orders: OrderSocket) -> threading.Thread:
    thread = threading.Thread(target=orders.answer_one, args=(_do,))
    thread.start()
    return thread


def test_an_order_is_answered_however_long_the_path_is(orders: OrderSocket, path: Path) -> None:
    serving = _serve(orders)
    assert give_order(path, {"do": "info"}) == {"did": "info"}
    serving.join(5)


def test_an_error_arrives_as_what_it_was(orders: OrderSocket, path: Path) -> None:
    serving = _serve(orders)
    with pytest.raises(ConfigError, match="no such thing: say another"):
        give_order(path, {"do": "fail"})
    serving.join(5)


def test_what_is_no_order_is_refused(orders: OrderSocket, path: Path) -> None:
    serving = _serve(orders)
    with pytest.raises(HarnessError, match="not an order"):
        give_order(path, ["x"])  # type: ignore[arg-type]
    serving.join(5)


def test_a_closed_socket_is_gone_and_a_dead_one_is_replaced(path: Path) -> None:
    path.touch()  # as a killed supervisor leaves it
    orders = OrderSocket(path)
    serving = _serve(orders)
    assert give_order(path, {"do": "x"}) == {"did": "x"}
    serving.join(5)
    orders.close()
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        give_order(path, {"do": "x"})
