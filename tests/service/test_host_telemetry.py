"""What is made of one monitor's messages, by itself."""

from __future__ import annotations

from tests.service.raw_monitor import HOST, cards
from yarn_gpu_sched.engine import events
from yarn_gpu_sched.model.health import XidSeen
from yarn_gpu_sched.protocol.v1 import monitor_pb2
from yarn_gpu_sched.service.monitors.telemetry import HostTelemetry


def test_c20_an_xid_that_comes_while_gpus_cannot_be_read_is_not_lost() -> None:
    known = HostTelemetry(HOST, 512, 5)
    known.begin(monitor_pb2.Hello(cards=cards()))
    told = monitor_pb2.Telemetry(
        failure=monitor_pb2.ReadFailure(kind=monitor_pb2.READ_FAILURE_KIND_TIMED_OUT),
        xids=[monitor_pb2.XidEvent(slot=2, xid=79), monitor_pb2.XidEvent(slot=2, xid=48)],
    )
    reported = [event for event in known.take(told, 101.0, ()) if isinstance(event, events.GpusReported)]
    assert [(gpu.slot, gpu.xids) for event in reported for gpu in event.gpus] == [
        (2, (XidSeen(79, 101.0), XidSeen(48, 101.0)))
    ]
