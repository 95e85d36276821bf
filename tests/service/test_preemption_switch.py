"""The operator's switch: it holds at once, whatever becomes of the file, and the file ends with what was said last."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from grpc import aio

from tests.service.conftest import until
from yarn_gpu_sched.model.preemption import Mode
from yarn_gpu_sched.protocol.v1 import preemption_pb2, preemption_pb2_grpc
from yarn_gpu_sched.service import FakeClock, Service, Settings
from yarn_gpu_sched.service.switch_file import Switch, SwitchFile

ON, OFF = preemption_pb2.PREEMPTION_MODE_ON, preemption_pb2.PREEMPTION_MODE_OFF


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(listen="127.0.0.1:0", audit_every_events=0, state_dir=str(tmp_path))


@pytest.fixture
def preemption(channel: aio.Channel) -> preemption_pb2_grpc.PreemptionServiceAsyncStub:
    return preemption_pb2_grpc.PreemptionServiceStub(channel)


def said(mode: preemption_pb2.PreemptionMode.ValueType, why: str) -> preemption_pb2.SetPreemptionModeRequest:
    return preemption_pb2.SetPreemptionModeRequest(mode=mode, reason=why, by="root")


def kept(folder: Path) -> dict[str, str]:
    read = json.loads((folder / "preemption.json").read_text())
    assert read.pop("time").endswith("Z")
    return dict(read)


async def test_it_holds_although_it_cannot_be_written(
    service: Service, preemption: preemption_pb2_grpc.PreemptionServiceAsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: SwitchFile, _switch: Switch) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SwitchFile, "write", full)
    answer = await preemption.SetPreemptionMode(said(OFF, "stop it"))
    assert not answer.kept
    assert "could not be written to state_dir: [Errno 28] No space left" in answer.not_kept_because
    assert service.engine.preemption().mode is Mode.OFF


async def test_it_holds_before_it_is_written_and_the_last_word_is_what_is_kept(
    service: Service,
    preemption: preemption_pb2_grpc.PreemptionServiceAsyncStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write, slow = SwitchFile.write, threading.Event()

    def late(self: SwitchFile, switch: Switch) -> None:
        slow.wait(20)
        write(self, switch)

    monkeypatch.setattr(SwitchFile, "write", late)
    first = asyncio.ensure_future(preemption.SetPreemptionMode(said(ON, "first")))
    await until(lambda: service.engine.preemption().mode is Mode.ON)
    second = asyncio.ensure_future(preemption.SetPreemptionMode(said(OFF, "second")))
    await until(lambda: service.engine.preemption().mode is Mode.OFF)
    assert (first.done(), second.done()) == (False, False)
    slow.set()
    assert [(await one).kept for one in (first, second)] == [True, True]
    assert kept(tmp_path) == {"mode": "off", "why": "second", "by": "root"}


async def test_it_is_carried_through_although_the_caller_has_gone(
    service: Service,
    preemption: preemption_pb2_grpc.PreemptionServiceAsyncStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write, begun, go_on = SwitchFile.write, threading.Event(), threading.Event()

    def late(self: SwitchFile, switch: Switch) -> None:
        begun.set()
        go_on.wait(20)
        write(self, switch)

    monkeypatch.setattr(SwitchFile, "write", late)
    first = asyncio.ensure_future(preemption.SetPreemptionMode(said(ON, "first")))
    await until(begun.is_set)
    second = preemption.SetPreemptionMode(said(OFF, "second"))
    await until(lambda: service.engine.preemption().mode is Mode.OFF)
    second.cancel()
    await preemption.GetPreemption(preemption_pb2.GetPreemptionRequest())  # by now the service knows that it has gone
    go_on.set()
    await first
    await until(lambda: kept(tmp_path)["why"] == "second")


async def test_only_so_many_switches_wait_to_be_written(
    service: Service, preemption: preemption_pb2_grpc.PreemptionServiceAsyncStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(SwitchFile, "write", lambda _self, _switch: go_on.wait(20))
    monkeypatch.setattr("yarn_gpu_sched.service.preemption_switch.WRITES_MAX", 2)
    waiting = [asyncio.ensure_future(preemption.SetPreemptionMode(said(ON, f"number {one}"))) for one in range(2)]
    await until(lambda: service.preemption_switch._writing == 2)
    answer = await preemption.SetPreemptionMode(said(OFF, "enough"))
    assert answer.not_kept_because == "state_dir does not answer: 2 switches wait to be written"
    assert service.engine.preemption().mode is Mode.OFF, "it holds all the same"
    go_on.set()
    assert [(await one).kept for one in waiting] == [True, True]


async def test_the_next_service_goes_on_with_it(
    service: Service,
    preemption: preemption_pb2_grpc.PreemptionServiceAsyncStub,
    settings: Settings,
    clock: FakeClock,
) -> None:
    assert (await preemption.SetPreemptionMode(said(ON, "armed"))).kept
    await service.stop()
    after = Service(settings, clock)
    await after.start()
    assert (after.engine.preemption().mode, after.engine.preemption().why) == (Mode.ON, "armed")
    await after.stop()
