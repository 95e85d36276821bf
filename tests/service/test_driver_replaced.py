"""A resource manager is replaced while something is under way: what is decided of the old one never reaches the new one."""

from collections.abc import Callable

import pytest

from tests.service import changes
from tests.service.conftest import settled, until
from tests.service.raw_link import RawLink
from yarn_gpu_sched.engine import events
from yarn_gpu_sched.engine.commands import AnyCommand
from yarn_gpu_sched.protocol.convert import Registration
from yarn_gpu_sched.service import Service
from yarn_gpu_sched.service.session import Session, SessionLimits

Link = Callable[[], RawLink]


def newcomer() -> Session:
    return Session(Registration("c1", 2, 2, 0.0, "newer"), SessionLimits())


@pytest.mark.parametrize("trigger", [events.JobChanged, events.AsksChanged])
async def test_a_batch_under_way(
    service: Service, link: Link, monkeypatch: pytest.MonkeyPatch, trigger: type[events.Event]
) -> None:
    one = await link().open(changes.server())
    await settled(service)
    newer, apply = newcomer(), service.engine.apply

    def apply_and_replace(event: events.AnyEvent) -> list[AnyCommand]:
        if isinstance(event, trigger) and service.driver.session is not newer:
            service.driver.admit(newer)
        return apply(event)

    monkeypatch.setattr(service.engine, "apply", apply_and_replace, raising=False)
    many = [changes.server(f"gpu-{number}:1") for number in range(300)]
    await one.batch(changes.job(), changes.asks(), *many)
    await until(lambda: service.driver.session is newer)
    await service.driver.settle()
    assert (newer.outbound, newer.unanswered) == (0, {})
    assert service.engine.cluster().epoch == 2
    assert service.engine.cluster().servers == 0
    assert service.engine.audit() == []


async def test_a_pass_whose_time_has_come(service: Service, link: Link) -> None:
    await link().open(changes.server(), changes.job(), changes.asks(count=9))
    await settled(service)
    newer = newcomer()
    service.driver._wake_up()
    service.driver.engine.apply(_more_room(service))
    service.driver.admit(newer)
    await service.driver.settle()
    assert (newer.outbound, newer.unanswered) == (0, {})
    assert service.engine.cluster().epoch == 2


def _more_room(service: Service) -> events.ServerChanged:
    known = service.engine.servers()[0][0].server
    fields = {name: getattr(known, name) for name in known.__struct_fields__}
    return events.ServerChanged(now_s=service.clock.now_s(), server=type(known)(**{**fields, "server_id": "gpu-2:1"}))
