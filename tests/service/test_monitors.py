"""What node monitors tell and are told, over real streams."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from grpc import StatusCode, aio

from tests.service import changes
from tests.service.conftest import heard, settled, until
from tests.service.raw_link import RawLink
from tests.service.raw_monitor import HOST, RawMonitor, cards, held, sample
from yarn_gpu_sched.engine.views import HostView
from yarn_gpu_sched.model.health import Fault, Health, Telemetry
from yarn_gpu_sched.protocol.v1 import monitor_pb2
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.monitors import orders

Link = Callable[[], RawLink]
Monitor = Callable[[], RawMonitor]


@pytest.fixture
def settings() -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, local_monitors=True)


@pytest.fixture
def monitor(channel: aio.Channel) -> Monitor:
    return lambda: RawMonitor(channel)


def host(service: Service, name: str = HOST) -> HostView:
    views, _ = service.engine.hosts(only=name)
    assert service.engine.audit() == []
    return views[0]


def health(service: Service, slot: int) -> Health:
    return host(service).gpus[slot].gpu.health


async def test_a_monitor_that_connects_makes_its_server_live(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server())
    await until(lambda: service.engine.hosts(only=HOST)[1] == 1)
    assert host(service).record.telemetry is Telemetry.NONE
    one = await monitor().hello()
    assert host(service).record.telemetry is Telemetry.NONE  # it has not read anything yet
    await one.tell()
    await until(lambda: host(service).record.telemetry is Telemetry.LIVE)
    assert [one.gpu.uuid for one in host(service).gpus] == [f"GPU-gpu-1-{slot}" for slot in range(4)]


async def test_an_xid_travels_to_the_engine_and_a_bad_reading_is_told_three_times(
    service: Service, link: Link, monitor: Monitor
) -> None:
    await link().open(changes.server())
    await settled(service)
    one = await monitor().hello()
    await one.tell(xids=[monitor_pb2.XidEvent(slot=2, xid=79, age_s=0.5)])
    await until(lambda: health(service, 2) is Health.QUARANTINED)
    for _ in range(3):
        await one.tell(sample(1, throttle_reasons=["hw_thermal_slowdown"]))
    await until(lambda: health(service, 1) is Health.SUSPECT)
    events = service.metrics.events._value.get()
    for _ in range(20):
        await one.tell(sample(1, throttle_reasons=["hw_thermal_slowdown"]))
    await one.tell(sample(3, throttle_reasons=["hw_slowdown"]))
    await heard(service, 25)
    assert service.metrics.events._value.get() <= events + 2  # what is so already is not told again


async def test_readings_that_change_nothing_cost_no_event(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server())
    await settled(service)
    one = await monitor().hello()
    await one.tell(*(sample(slot) for slot in range(4)))
    await heard(service, 1)
    await settled(service)
    events = service.metrics.events._value.get()
    for number in range(50):
        await one.tell(*(sample(slot, sm_percent=number, temperature_c=30 + number) for slot in range(4)))
    await heard(service, 51)
    assert service.metrics.events._value.get() == events
    assert service.fleet.hosts[HOST].samples[0].message.sm_percent == 49


async def test_a_gang_learns_its_gpus_ranks_and_hosts(link: Link, monitor: Monitor) -> None:
    one, other = await monitor().hello(), await monitor().hello("gpu-2")
    resource_manager = await link().open(
        changes.server(), changes.server("gpu-2:45454"), changes.job(tags=["gang:4x2"]), changes.asks(count=4, gpus=2)
    )
    (decision,) = await resource_manager.decisions()
    await resource_manager.batch(changes.committed(decision), changes.asks(count=0))
    first = await one.ordered(lambda order: order.bindings)
    second = await other.ordered(lambda order: order.bindings)
    told = {binding.rank: binding for order in (first, second) for binding in order.bindings}
    assert sorted(told) == [0, 1, 2, 3]
    assert {binding.world_size for binding in told.values()} == {4}
    assert [list(told[rank].slots) for rank in range(4)] == [[0, 1], [2, 3], [0, 1], [2, 3]]
    assert list(told[0].hosts) == ["gpu-1", "gpu-1", "gpu-2", "gpu-2"]
    assert {binding.domain for binding in told.values()} == {"/rack-a"}
    assert {binding.job_id for binding in told.values()} == {"job-1"}


async def test_a_container_without_gpus_and_one_of_no_gang_have_no_rank(
    service: Service, link: Link, monitor: Monitor
) -> None:
    await link().open(changes.server(), changes.job(), changes.container(gpu_indices=()))
    await settled(service)
    order = (await monitor().hello()).orders[0]
    assert order.all
    (binding,) = order.bindings
    assert (list(binding.slots), binding.HasField("rank"), binding.world_size) == ([], False, 0)


async def test_whoever_connects_learns_all_and_what_was_unknown_is_not_all(
    service: Service, link: Link, monitor: Monitor, clock: FakeClock
) -> None:
    """Until the snapshot is whole and settled the monitor must not forget what it knows."""
    one = await monitor().hello()
    assert not one.orders[0].all
    await link().open(changes.server(), changes.job(), changes.container(), settle_s=30)
    order = await one.order()
    assert (order.all, [binding.container_id for binding in order.bindings]) == (False, ["container-1"])
    await settled(service)
    clock.advance(31.0)
    assert [binding.container_id for binding in (await one.ordered(lambda order: order.all)).bindings] == [
        "container-1"
    ]
    again = await monitor().hello()
    assert [binding.container_id for binding in again.orders[0].bindings] == ["container-1"]
    assert again.orders[0].all


async def test_a_gpu_is_given_out_again_only_after_a_reading_from_after_the_end(
    service: Service, link: Link, monitor: Monitor
) -> None:
    resource_manager = await link().open(changes.server(), changes.job(), changes.container(gpu_indices=(0, 1, 2, 3)))
    await settled(service)
    one = await monitor().hello()
    await one.tell(*(held(slot, "container-1") for slot in range(4)))
    await heard(service, 1)
    await resource_manager.batch(changes.released())
    order = await one.ordered(lambda order: order.gone_container_ids)
    assert list(order.gone_container_ids) == ["container-1"]
    await one.tell(*(sample(slot) for slot in range(4)), orders_seen=order.sequence - 1)
    await heard(service, 2)
    assert (host(service).gpus[0].gpu.foreign, host(service).gpus[0].gpu.out) == (False, True)
    await one.tell(orders_seen=order.sequence)
    await until(lambda: not host(service).gpus[0].gpu.out)


async def test_an_end_that_a_monitor_missed_is_told_to_the_next(service: Service, link: Link, monitor: Monitor) -> None:
    resource_manager = await link().open(changes.server(), changes.job(), changes.container())
    await settled(service)
    first = await monitor().hello()
    first.cancel()
    await resource_manager.batch(changes.released())
    await settled(service)
    second = await monitor().hello()
    assert list(second.orders[0].gone_container_ids) == ["container-1"]
    await second.tell(sample(0))
    await until(lambda: not host(service).gpus[0].gpu.out)


async def test_a_server_whose_monitor_is_silent_is_unknown_and_comes_back_when_it_speaks(
    service: Service, link: Link, monitor: Monitor, clock: FakeClock
) -> None:
    await link().open(changes.server())
    await settled(service)
    one = await monitor().hello()
    await one.tell()
    await heard(service, 1)
    clock.advance(29.0)
    assert not host(service).unknown
    clock.advance(2.0)
    await until(lambda: host(service).unknown)
    assert host(service).record.telemetry is Telemetry.SILENT
    await one.tell()
    await until(lambda: not host(service).unknown)


async def test_c16_a_driver_that_cannot_be_read_makes_the_server_unknown_and_the_reason_is_named(
    service: Service, link: Link, monitor: Monitor, clock: FakeClock
) -> None:
    await link().open(changes.server(), changes.job(), changes.container())
    await settled(service)
    one = await monitor().hello()
    failure = monitor_pb2.ReadFailure(
        kind=monitor_pb2.READ_FAILURE_KIND_DRIVER_MISMATCH, detail="Driver/library version mismatch"
    )
    for _ in range(3):
        await one.tell(failure=failure)
    await until(lambda: host(service).unknown)
    view = host(service)
    assert view.record.detail == "driver_mismatch: Driver/library version mismatch"
    assert (view.gpus_counted, view.gpus_healthy, view.gpus[0].container_id) == (4, 4, "container-1")
    await one.tell(*(sample(slot) for slot in range(4)))
    await until(lambda: host(service).record.telemetry is Telemetry.LIVE)
    for count in range(3):
        clock.advance(20.0)
        await one.tell()
        await heard(service, 5 + count)
    await until(lambda: not host(service).unknown)


async def test_a_valid_reading_of_no_gpus_is_another_thing(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server())
    await settled(service)
    one = await monitor().hello(cards=[])
    await one.tell(no_cards=True)
    await until(lambda: host(service).gpus_healthy == 0)
    assert (host(service).unknown, host(service).gpus_counted) == (False, 4)
    await one.tell(cards=cards())
    await until(lambda: host(service).gpus_healthy == 4)


async def test_time_goes_on_for_health_while_no_resource_manager_is_there(
    service: Service, link: Link, monitor: Monitor, clock: FakeClock
) -> None:
    """And the driver is woken for it once, not for ever."""
    resource_manager = await link().open(changes.server())
    await settled(service)
    one = await monitor().hello()
    await settled(service)
    resource_manager.call.cancel()
    await until(lambda: service.driver.session is None)
    for _ in range(3):
        await one.tell(sample(1, throttle_reasons=["hw_slowdown"]))
    await one.tell(sample(1))
    await heard(service, 4)
    for count in range(3):
        clock.advance(20.0)
        await one.tell()
        await heard(service, 5 + count)
    await until(lambda: health(service, 1) is Health.OK)
    await service.driver.settle()
    assert service.engine.next_wake_s() is None


async def test_a_card_that_vanishes_and_the_renumbering_that_follows(
    service: Service, link: Link, monitor: Monitor
) -> None:
    await link().open(changes.server())
    await settled(service)
    one = await monitor().hello()
    left = cards()
    left[1].ClearField("index")
    left[2].index, left[3].index = 1, 2
    for _ in range(3):
        await one.tell(cards=left)
    await until(lambda: health(service, 1) is Health.QUARANTINED)
    assert [health(service, slot) for slot in (0, 2, 3)] == [Health.OK] * 3
    assert [one.gpu.uuid for one in host(service).gpus] == [f"GPU-gpu-1-{slot}" for slot in range(4)]


async def test_c18_the_difference_to_what_yarn_counts_is_shown(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server())
    await settled(service)
    one = await monitor().hello()
    parent = cards()
    parent[0].mig = True
    await one.tell(cards=parent)
    await until(lambda: health(service, 0) is Health.QUARANTINED)
    assert host(service).gpus[0].gpu.faults == (Fault.MIG,)
    assert (host(service).gpus_counted, host(service).gpus_healthy) == (4, 3)


async def test_a_second_monitor_of_a_server_replaces_the_first(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server())
    await settled(service)
    first = await monitor().hello()
    second = await monitor().hello()
    assert (await first.ended())[0] is StatusCode.ABORTED
    await second.tell(sample(0, throttle_reasons=["hw_slowdown"]))
    await until(lambda: host(service).gpus[0].gpu.levels == (Fault.THROTTLED,))
    assert service.fleet.connected == 1


@pytest.mark.parametrize("name", ["GPU-1", "gpu-1.example.org", "Gpu-1.Example.Org"])
async def test_c27_a_name_in_another_case_or_form_means_the_same_server(
    service: Service, link: Link, monitor: Monitor, name: str
) -> None:
    await link().open(changes.server())
    await settled(service)
    await (await monitor().hello(name)).tell()
    await until(lambda: host(service).record.telemetry is Telemetry.LIVE)
    assert service.engine.hosts()[1] == 1


async def test_devices_that_the_node_manager_gave_are_followed(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server(), changes.job(), changes.container(gpu_indices=(0, 1)))
    await settled(service)
    one = await monitor().hello()
    stranger = monitor_pb2.AssignedDevices(container_id="container-9", slots=[0])
    await one.tell(
        assigned=[monitor_pb2.AssignedDevices(container_id="container-1", slots=[2, 3]), stranger], assigns=True
    )
    await until(lambda: [gpu.container_id for gpu in host(service).gpus] == ["", "", "container-1", "container-1"])
    order = await one.ordered(lambda order: order.bindings)
    assert list(order.bindings[0].slots) == [2, 3]


@pytest.mark.parametrize(
    ("told", "held"),
    [
        ({"k1": 1}, ["k2", "k1", "k3", ""]),
        ({"k1": 1, "k2": 0}, ["k2", "k1", "k3", ""]),
        ({"k1": 1, "k2": 2, "k3": 0}, ["k3", "k1", "k2", ""]),
        ({"k1": 3, "k3": 3}, ["k1", "k2", "k3", ""]),
    ],
)
async def test_where_the_node_manager_gave_a_gpu_that_another_was_thought_to_have_nobody_shares_it(
    service: Service, link: Link, monitor: Monitor, told: dict[str, int], held: list[str]
) -> None:
    there = [changes.container(f"k{slot + 1}", gpu_indices=(slot,)) for slot in range(3)]
    await link().open(changes.server(), changes.job(), *there)
    await settled(service)
    one = await monitor().hello()
    await settled(service)
    assigned = [monitor_pb2.AssignedDevices(container_id=name, slots=[slot]) for name, slot in told.items()]
    await one.tell(assigned=assigned, assigns=True)
    await heard(service, 1)
    await settled(service)
    assert [gpu.container_id for gpu in host(service).gpus] == held


async def test_a_monitor_tells_nothing_of_containers_elsewhere(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server(), changes.server("gpu-2:45454"), changes.job(), changes.container())
    await settled(service)
    other = await monitor().hello("gpu-2")
    await other.tell(
        assigned=[monitor_pb2.AssignedDevices(container_id="container-1", slots=[3])],
        checkpointed_container_ids=["container-1"],
    )
    await heard(service, 1)
    assert host(service).gpus[0].container_id == "container-1"


async def test_a_checkpoint_that_a_container_wrote_is_told(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server(), changes.job(tags=["gang:1x1"]), changes.container())
    await settled(service)
    one = await monitor().hello()
    await settled(service)
    await one.tell(checkpointed_container_ids=["container-1", "container-77"])
    record = service.engine._core.state.jobs["job-1"]
    await until(lambda: record.tenure.checkpoint_s is not None)


async def test_a_refused_container_is_counted(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server(), changes.job(), changes.container())
    await settled(service)
    one = await monitor().hello()
    await one.tell(refusals=[monitor_pb2.BindingRefusal(container_id="container-1", slots=[0], detail="pid 7")])
    await until(lambda: service.metrics.bindings_refused._value.get() == 1)


async def test_how_well_gpus_are_connected_reaches_the_engine(service: Service, link: Link, monitor: Monitor) -> None:
    await link().open(changes.server())
    await settled(service)
    linked = cards()
    linked[0].links.add(slot=1, kind=monitor_pb2.LINK_KIND_NVLINK, lanes=2)
    linked[1].links.add(slot=0, kind=monitor_pb2.LINK_KIND_NVLINK, lanes=2)
    linked[2].links.add(slot=3, kind=monitor_pb2.LINK_KIND_SYSTEM)
    await (await monitor().hello(cards=linked)).tell()
    await until(lambda: host(service).record.links != ())
    assert host(service).record.links == ((0, 120, 0, 0), (120, 0, 0, 0), (0, 0, 0, 10), (0, 0, 0, 0))


def test_orders_are_told_once_in_messages_of_bounded_size() -> None:
    one = orders.Orders()
    hosts = [f"server-with-a-long-name-{number}" for number in range(10_000)]
    for number in range(5):
        one.bind(orders.binding_message(f"container-{number}", "job", (number,), rank=number, hosts=hosts))
    one.begin(complete=True)
    messages = []
    while (message := one.next_message()) is not None:
        messages.append(message)
    assert [message.sequence for message in messages] == list(range(1, len(messages) + 1))
    assert max(message.ByteSize() for message in messages) < 1 << 20
    told = [binding.container_id for message in messages for binding in message.bindings]
    assert told == [f"container-{number}" for number in range(5)]
    one.bind(orders.binding_message("container-0", "job", (0,), rank=0, hosts=hosts))
    assert one.next_message() is None


def test_ends_that_no_monitor_takes_are_bounded() -> None:
    one = orders.Orders()
    for number in range(orders.ENDED_MAX + 10):
        one.unbind(f"container-{number}")
    assert one.queued == orders.ENDED_MAX
    one.begin(complete=True)
    while one.next_message() is not None:
        pass
    assert len(one.ended(1 << 30)) == orders.ENDED_MAX
    one.told(one.ended(1 << 30))
    assert one.ended(1 << 30) == ()
