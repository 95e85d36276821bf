"""Gangs of masters that use Hadoop's own client library, which keeps totals of what it was asked for and adds racks to hosts."""

from __future__ import annotations

import pytest

from tests.real.apps import StockMaster
from tests.real.joint import FULL, ServedJoint
from yarn_gpu_sched.protocol.v1 import reason_pb2

pytestmark = [pytest.mark.real, pytest.mark.both, pytest.mark.timeout(300)]


def master(joint: ServedJoint, *tags: str) -> StockMaster:
    return joint.apps.submit(tags=list(tags)).register_stock()


def await_held(joint: ServedJoint, stock: StockMaster, containers: int) -> None:
    """Wait until a job holds just so many, and nothing of what it asked is left."""
    job = lambda: joint.view(stock.app.app_id)  # noqa: E731 - one line, used once
    right = lambda view: len(view.containers) == containers and not view.gpus_pending  # noqa: E731 - one line, used once
    joint.until(job, right, f"{containers} containers of {stock.app.app_id}")


def test_totals_that_go_down_are_no_new_asks(joint: ServedJoint) -> None:
    stock = master(joint, "gang:3x2")
    stock.request(3, 2)
    stock.hold(3)
    stock.beat()  # tells a total of none: three were taken off for the three that came
    await_held(joint, stock, 3)
    stock.request(1, 2)
    stock.hold(4)
    stock.beat()
    await_held(joint, stock, 4)
    stock.finish()


def test_what_a_careless_master_asks_too_much_can_be_released(joint: ServedJoint) -> None:
    """Totals that were never taken down count again with the next request: the resource manager holds them as asks."""
    stock = master(joint, "gang:2x1")
    stock.request(2, 1)
    stock.hold(2, careless=True)
    stock.request(1, 1)
    surplus = stock.hold(5, careless=True)
    await_held(joint, stock, 5)
    stock.release(*(one["container"] for one in surplus[1:]))
    stock.beat()
    await_held(joint, stock, 3)
    stock.finish()


def test_a_strict_host_whose_rack_the_library_adds_itself(joint: ServedJoint) -> None:
    stock = master(joint, "gang:2x2")
    stock.request(2, 2, hosts=["gpu-b2"], strict=True)
    stock.hold(2)
    assert joint.hosts(stock.app.app_id, 2) == ["gpu-b2", "gpu-b2"]
    other = master(joint, "gang:1x1")
    other.request(1, 1, hosts=["gpu-b2"], strict=True)
    other.beat()
    joint.await_state(other.app.app_id, reason_pb2.WAITING_REASON_CODE_CONFINED)
    stock.finish()
    other.hold(1)
    assert joint.hosts(other.app.app_id, 1) == ["gpu-b2"]


def test_who_withdraws_and_asks_again_keeps_its_place(joint: ServedJoint) -> None:
    holder = master(joint, "gang:4x4")
    holder.request(4, 4)
    holder.hold(4)
    first, second = master(joint, "gang:4x4"), master(joint, "gang:4x4")
    for stock in (first, second):
        stock.request(4, 4)
        stock.beat()
        joint.await_state(stock.app.app_id, FULL)
    first.withdraw()
    first.beat()
    joint.await_state(first.app.app_id, reason_pb2.WAITING_REASON_CODE_NOT_ASKED)
    first.request(4, 4)
    first.beat()
    joint.await_state(first.app.app_id, FULL)
    holder.finish()
    first.hold(4)
    assert joint.placed_now(second.app.app_id) == {}
