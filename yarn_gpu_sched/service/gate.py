"""Decides of every call whether it may be made, before its handler hears of it: the one place that enforces `permissions`."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from grpc import aio

from yarn_gpu_sched.identity import Identity, presented, utc_now
from yarn_gpu_sched.protocol.bounds import one_line
from yarn_gpu_sched.service.caller import Call, Record, serve_call
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.permissions import PERMISSIONS, Rule
from yarn_gpu_sched.service.refusal import Refusal, end_call, refusal_of

Context = aio.ServicerContext[Any, Any]
Handler = Any  # grpc gives its handlers no type that names their behaviours
_UNLISTED = Rule("something that no table names", frozenset())
_MAKERS: dict[tuple[bool, bool], Callable[..., Any]] = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, False): grpc.stream_unary_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}


class Gate(aio.ServerInterceptor):
    """Stands before all handlers of a server: unary and streaming, ours, health and reflection."""

    def __init__(
        self,
        write: Callable[[Record], None],
        metrics: Metrics,
        called: Callable[[str], None],
        now: Callable[[], dt.datetime] = utc_now,
    ) -> None:
        """``write`` takes lines of the audit log, ``called`` who calls with TLS; by ``now`` certificates expire."""
        self._called = called
        self._write = write
        self._metrics = metrics
        self._now = now
        self._known: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Put the check before a handler; who calls what nobody serves is told so by gRPC."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        if handler_call_details.method not in self._known:
            self._known[handler_call_details.method] = self._guarded(handler_call_details.method, handler)
        return self._known[handler_call_details.method]

    def _guarded(self, method: str, handler: Any) -> Handler:  # noqa: ANN401 - grpc's type does not name its behaviours
        make = _MAKERS[bool(handler.request_streaming), bool(handler.response_streaming)]
        kind = ("stream" if handler.request_streaming else "unary", "stream" if handler.response_streaming else "unary")
        behaviour = getattr(handler, "_".join(kind))
        guard = self._each if inspect.isasyncgenfunction(behaviour) else self._once
        made: Handler = make(guard(method, behaviour), handler.request_deserializer, handler.response_serializer)
        return made

    def _once(self, method: str, behaviour: Callable[..., Any]) -> Callable[[Any, Context], Awaitable[Any]]:
        async def handle(request: Any, context: Context) -> Any:  # noqa: ANN401 - any message
            call = await self._admit(method, context)
            try:
                found = behaviour(request, context)
                return await found if inspect.isawaitable(found) else found
            finally:  # also if the caller was gone before it could be told
                self._note_refusal(method, call)

        return handle

    def _each(self, method: str, behaviour: Callable[..., AsyncIterator[Any]]) -> Callable[[Any, Context], Any]:
        async def handle(request: Any, context: Context) -> AsyncIterator[Any]:  # noqa: ANN401 - any message
            await self._admit(method, context)
            async for answer in behaviour(request, context):
                yield answer

        return handle

    async def _admit(self, method: str, context: Context) -> Call:
        rule = PERMISSIONS.get(method, _UNLISTED)
        identity, who, fault = self._identify(context)
        call = Call(
            identity, who=who, peer=one_line(context.peer()), rpc=method, meaning=rule.meaning, write=self._write
        )
        serve_call(call)
        refusal = fault or _forbidden(method, rule, call)
        if refusal is not None:
            self._refused(call, refusal)
            await end_call(context, refusal)
            raise aio.AbortError  # it could not be told, and must not go on
        return call

    def _identify(self, context: Context) -> tuple[Identity | None, str, Refusal | None]:
        """Say who calls; without TLS it is somebody on this machine, because only there it is listened without."""
        found = context.auth_context()
        if found.get("transport_security_type") == [b"insecure"]:
            return None, "unix" if context.peer().startswith("unix:") else "loopback", None
        self._called(context.peer())
        own = presented(b"".join(found.get("x509_pem_cert", ())))
        if own.identity is None:
            return None, "unknown", _unknown(own.fault, "NO_IDENTITY")
        if own.expires <= self._now():
            sentence = f"the certificate of {own.identity} expired at {own.expires:%Y-%m-%dT%H:%M:%SZ}"
            return own.identity, str(own.identity), _unknown(sentence, "CERTIFICATE_EXPIRED")
        return own.identity, str(own.identity), None

    def _refused(self, call: Call, refusal: Refusal) -> None:
        self._metrics.refused_calls.labels(refusal.reason).inc()
        call.refused(refusal.code.name, refusal.reason, one_line(refusal.sentence))

    def _note_refusal(self, method: str, call: Call) -> None:
        """Note what a handler refused: all of what would have changed something."""
        refusal = refusal_of()
        if refusal is not None and PERMISSIONS[method].changes and not call.begun:
            self._refused(call, refusal)


def _forbidden(method: str, rule: Rule, call: Call) -> Refusal | None:
    if rule is _UNLISTED:
        return _denied(f"{one_line(method)} is in no table of what may be called")
    if call.identity is None or call.identity.role in rule.roles:
        return None
    allowed = ", ".join(sorted(role.value for role in rule.roles))
    return _denied(f"{call.identity} may not {rule.meaning}; who may: {allowed}")


def _denied(sentence: str) -> Refusal:
    return Refusal(grpc.StatusCode.PERMISSION_DENIED, sentence, "ROLE_NOT_PERMITTED")


def _unknown(sentence: str, reason: str) -> Refusal:
    return Refusal(grpc.StatusCode.UNAUTHENTICATED, sentence, reason)
