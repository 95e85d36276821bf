"""The resource manager's side of the link, as bare as it can be: what is said is what is sent."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, cast

import grpc
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped] # has no stubs
from grpc import aio

from yarn_gpu_sched.protocol.v1 import decision_pb2, link_pb2

CONNECT = "/yarn_gpu_sched.v1.ResourceManagerLinkService/Connect"
BOUND_S = 20.0
CHUNK_CHANGES = 1_000


class Ended(Exception):  # noqa: N818 - how a call ended, good or bad
    """How a call ended: code, sentence and the details for programs."""

    def __init__(self, code: grpc.StatusCode, sentence: str, metadata: Any) -> None:  # noqa: ANN401 - grpc gives no type
        self.code = code
        self.sentence = sentence
        self.reason, self.fields = _details(metadata)
        super().__init__(f"{code.name}: {sentence}")


def _details(metadata: Any) -> tuple[str, list[str]]:  # noqa: ANN401 - grpc gives no type
    reason, fields = "", []
    for key, value in metadata or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in status_pb2.Status.FromString(value).details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                reason = error_details_pb2.ErrorInfo.FromString(detail.value).reason
            else:
                violations = error_details_pb2.BadRequest.FromString(detail.value).field_violations
                fields = [violation.field for violation in violations]
    return reason, fields


def ended_by(error: aio.AioRpcError) -> Ended:
    return Ended(error.code(), error.details() or "", error.trailing_metadata())


class RawLink:
    """One stream. Messages are numbered here unless a test numbers them itself."""

    opened: ClassVar[dict[str, RawLink]] = {}

    def __init__(self, channel: aio.Channel) -> None:
        self.call: aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(CONNECT)()
        self.sequence = 0
        self.session_id = ""

    async def raw(self, data: bytes) -> None:
        try:
            await self.call.write(data)
        except (asyncio.InvalidStateError, aio.AioRpcError):
            return  # the stream has ended: `end` says how

    async def say(self, message: link_pb2.ConnectRequest, sequence: int | None = None) -> None:
        self.sequence = self.sequence + 1 if sequence is None else sequence
        message.sequence = self.sequence
        await self.raw(message.SerializeToString())

    async def register(self, **fields: Any) -> None:  # noqa: ANN401 - fields of Register
        register = link_pb2.Register(protocol_version=1, cluster_id="c1", epoch=1, start_time_ms=1)
        for name, value in fields.items():
            setattr(register, name, value)
        await self.say(link_pb2.ConnectRequest(register=register))

    async def registered(self, **fields: Any) -> link_pb2.Registered:  # noqa: ANN401 - fields of Register
        await self.register(**fields)
        answer = await self.hear()
        assert answer.WhichOneof("message") == "registered"
        self.session_id = answer.registered.session_id
        self.opened[self.session_id] = self
        return answer.registered

    async def batch(self, *changes: link_pb2.Change, snapshot_end: bool = False) -> None:
        batch = link_pb2.Batch(changes=changes, snapshot_end=snapshot_end)
        await self.say(link_pb2.ConnectRequest(batch=batch))

    async def heartbeat(self) -> None:
        await self.say(link_pb2.ConnectRequest(heartbeat=link_pb2.Heartbeat()))

    async def open(self, *changes: link_pb2.Change, **fields: Any) -> RawLink:  # noqa: ANN401 - any field of Register
        """Register, and send a whole snapshot."""
        await self.registered(**fields)
        for start in range(0, len(changes), CHUNK_CHANGES):
            await self.batch(*changes[start : start + CHUNK_CHANGES])
        await self.batch(snapshot_end=True)
        return self

    async def hear(self) -> link_pb2.ConnectResponse:
        """Wait for the next message; `Ended` if there is none."""
        try:
            data = await asyncio.wait_for(self.call.read(), BOUND_S)
        except aio.AioRpcError as error:
            raise ended_by(error) from None
        if data is aio.EOF:
            raise Ended(await self.call.code(), await self.call.details(), await self.call.trailing_metadata())
        return link_pb2.ConnectResponse.FromString(cast("bytes", data))

    async def decisions(self, count: int = 1) -> list[decision_pb2.Decision]:
        """Wait for so many decisions."""
        heard: list[decision_pb2.Decision] = []
        while len(heard) < count:
            heard.extend((await self.hear()).decisions.decisions)
        assert len(heard) == count
        return heard

    async def end(self) -> Ended:
        """Wait for the end of the stream, whatever comes before."""
        while True:
            try:
                await self.hear()
            except Ended as ended:
                return ended
