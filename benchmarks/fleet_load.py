"""Plays many node monitors against a service, until its standard input ends: `fleet_load.py ADDRESS HOSTS GPUS PUSH_S`.

Each has a stream of its own, on a connection that it shares with some, says hello, and tells all of its GPUs every so many
seconds, each with other numbers than before, and with a process of whoever the service says holds it. It prints `ready` when all
are connected.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

from grpc import aio

from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb
from yarn_gpu_sched.protocol.v1 import monitor_pb2_grpc

STREAMS_OF_A_CONNECTION = 100
CONNECTING_MAX = 50


class Monitor:
    """One monitor."""

    def __init__(self, host: str, gpus: int, push_s: float) -> None:
        self._host = host
        self._gpus = gpus
        self._push_s = push_s
        self._random = random.Random(host)
        self._holders: dict[int, str] = {}
        self._order = 0

    async def run(self, channel: aio.Channel, connecting: asyncio.Semaphore) -> asyncio.Task[None]:
        """Connect; return the task that tells from then on."""
        async with connecting:
            call: Any = monitor_pb2_grpc.MonitorServiceStub(channel).Report()
            cards = [pb.Card(slot=n, uuid=f"GPU-{self._host}-{n}", index=n, model="V100") for n in range(self._gpus)]
            hello = pb.Hello(protocol_version=1, host=self._host, push_every_s=self._push_s, cards=cards, agent="load")
            await call.write(pb.ReportRequest(hello=hello))
            self._take(await call.read())
        return asyncio.create_task(self._tell(call))

    async def _tell(self, call: Any) -> None:  # noqa: ANN401 - grpc gives calls no type
        hearing = asyncio.create_task(self._hear(call))
        await asyncio.sleep(self._random.random() * self._push_s)
        sequence = 0
        while not hearing.done():
            sequence += 1
            samples = [self._sample(slot) for slot in range(self._gpus)]
            told = pb.Telemetry(sequence=sequence, age_s=0.2, orders_seen=self._order, gpus=samples)
            await call.write(pb.ReportRequest(telemetry=told))
            await asyncio.sleep(self._push_s)

    async def _hear(self, call: Any) -> None:  # noqa: ANN401 - grpc gives calls no type
        while (message := await call.read()) is not aio.EOF:
            self._take(message)

    def _take(self, order: pb.ReportResponse) -> None:
        self._order = order.sequence
        gone = set(order.gone_container_ids)
        self._holders = {slot: name for slot, name in self._holders.items() if name not in gone}
        for binding in order.bindings:
            self._holders |= dict.fromkeys(binding.slots, binding.container_id)

    def _sample(self, slot: int) -> pb.GpuSample:
        any_of, holder = self._random.randrange, self._holders.get(slot)
        sample = pb.GpuSample(
            slot=slot, memory_total_mb=16_384, temperature_c=30 + any_of(50), power_w=50 + any_of(250)
        )
        if holder is None:
            sample.memory_used_mb, sample.sm_percent, sample.memory_percent = 4, 0, 0
            return sample
        sample.memory_used_mb, sample.sm_percent, sample.memory_percent = (
            8_000 + any_of(4_000),
            any_of(101),
            any_of(101),
        )
        sample.processes.add(pid=1_000 + slot, memory_mb=8_000, container_id=holder, user="someone", command="python")
        return sample


async def main(address: str, hosts: int, gpus: int, push_s: float) -> None:
    """Play them until standard input ends."""
    connecting = asyncio.Semaphore(CONNECTING_MAX)
    channels: list[aio.Channel] = []
    starting = []
    for number in range(hosts):
        if number % STREAMS_OF_A_CONNECTION == 0:
            channels.append(aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]))
        starting.append(Monitor(f"gpu-{number:04d}", gpus, push_s).run(channels[-1], connecting))
    tasks = await asyncio.gather(*starting)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    done, _ = await asyncio.wait({ended, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    for task in done - {ended}:
        task.result()
    sys.stdout.write(f"{sum(task.done() for task in tasks)} ended early\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
