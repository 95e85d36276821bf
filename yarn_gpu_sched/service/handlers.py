"""Binds methods of the protocol to coroutines.

The generated servicers are not used: with them a message that cannot be read never reaches us and
its sender is told ``UNKNOWN``. Here it arrives as `Unreadable` and is answered like any other
mistake.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import grpc
import structlog
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from yarn_gpu_sched.protocol.convert import BadField
from yarn_gpu_sched.service.refusal import Refusal, end_call

_log = structlog.get_logger(__name__)

Request = TypeVar("Request", bound=Message)
Context = aio.ServicerContext[Any, Any]
Unary = Callable[[Any], Awaitable[Message]]
Methods = Mapping[str, Callable[..., Awaitable[Any]]]
Streaming = Callable[[Any, Context], Awaitable[None]]


class Unreadable(Exception):  # noqa: N818 - it is handed over as a value before it is raised
    """Bytes that are no message of the expected type."""


def reading(message_class: type[Request]) -> Callable[[bytes], Request | Unreadable]:
    """Make a deserializer that never raises."""

    def read(data: bytes) -> Request | Unreadable:
        try:
            return message_class.FromString(data)
        except DecodeError:
            name = message_class.DESCRIPTOR.full_name
            return Unreadable(f"the {len(data)} bytes received are no {name}")

    return read


def readable(request: Any) -> Any:  # noqa: ANN401 - what `reading` made: any message, or Unreadable
    """Return the message, or refuse the call for it."""
    if isinstance(request, Unreadable):
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, str(request), "UNREADABLE_MESSAGE")
    return request


async def begin_answering(context: Context) -> None:
    """Send a stream's headers, before a task is given its writing.

    Cancelled in its first message, which carries the headers, such a task would leave a call that cannot be ended: gRPC would
    send the headers again with the status, and fail.
    """
    await context.send_initial_metadata(())


async def guarded(context: Context, call: Awaitable[Any]) -> Any:  # noqa: ANN401 - any message
    """Await a call and answer its refusals; what nobody foresaw is logged, and hidden outside."""
    try:
        return await call
    except BadField as bad:
        refusal = Refusal.of(bad)
    except Refusal as refused:
        refusal = refused
    except aio.AbortError:
        raise
    except Exception:  # noqa: BLE001 - the last resort of every call
        _log.exception("call_failed")
        refusal = Refusal(grpc.StatusCode.INTERNAL, "the service failed; its log says why", "INTERNAL")
    await end_call(context, refusal)
    return None


def _unary(method: Unary) -> Callable[[Any, Context], Awaitable[Any]]:
    async def handle(request: Message | Unreadable, context: Context) -> Any:  # noqa: ANN401 - grpc gives handlers no type
        async def answer() -> Message:
            return await method(readable(request))

        return await guarded(context, answer())

    return handle


def _streaming(method: Streaming) -> Callable[[Any, Context], Awaitable[None]]:
    async def handle(request: Message | Unreadable, context: Context) -> None:
        async def stream() -> None:
            await method(readable(request), context)

        await guarded(context, stream())

    return handle


def _duplex(method: Callable[[Context], Awaitable[None]]) -> Callable[[Any, Context], Any]:
    async def handle(_requests: object, context: Context) -> None:
        await guarded(context, method(context))

    return handle


def service_handler(service: ServiceDescriptor, methods: Methods) -> grpc.GenericRpcHandler:
    """Bind every method of a service; one that is missing or unknown is a mistake of ours."""
    assert set(methods) == {method.name for method in service.methods}
    handlers = {}
    for method in service.methods:
        deserializer = reading(GetMessageClass(method.input_type))
        serializer = GetMessageClass(method.output_type).SerializeToString
        if method.client_streaming:
            make, bound = grpc.stream_stream_rpc_method_handler, _duplex(methods[method.name])
        elif method.server_streaming:
            make, bound = grpc.unary_stream_rpc_method_handler, _streaming(methods[method.name])
        else:
            make, bound = grpc.unary_unary_rpc_method_handler, _unary(methods[method.name])
        handlers[method.name] = make(bound, deserializer, serializer)
    return grpc.method_handlers_generic_handler(service.full_name, handlers)
