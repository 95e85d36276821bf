"""The call that is being served: who calls, from where, and what the audit log is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from yarn_gpu_sched.identity import Identity, Role

Record = Mapping[str, Any]
"""A line of the audit log."""


class Call:
    """One call. ``identity`` is None for a caller on this machine without TLS, who may do everything; so is that of no call."""

    def __init__(
        self,
        identity: Identity | None = None,
        *,
        who: str = "nobody",
        peer: str = "",
        rpc: str = "",
        meaning: str = "",
        write: Callable[[Record], None] | None = None,
    ) -> None:
        self.identity = identity
        self.who = who
        self.begun = False
        """Whether it was let begin something that lasts; how that ends is told by `ended`."""
        self._about = {"who": who, "rpc": rpc, "meaning": meaning, "peer": peer}
        self._write = write

    def has_role(self, role: Role) -> bool:
        """Tell whether the caller has proved a role."""
        return self.identity is not None and self.identity.role is role

    def acted(self, act: str, *, before: object = None, after: object = None, **more: object) -> None:
        """Note that the caller changed something: what it was before, and what it is now."""
        self._note({"outcome": "done", "act": act, "before": before, "after": after, **more})

    def began(self, act: str, **more: object) -> None:
        """Note that the caller began something that lasts as long as the call."""
        self.begun = True
        self._note({"outcome": "done", "act": act, **more})

    def ended(self, why: str, **more: object) -> None:
        """Note that it has ended."""
        self._note({"outcome": "done", "act": "ended", "why": why, **more})

    def refused(self, code: str, reason: str, why: str) -> None:
        """Note that the caller was refused."""
        self._note({"outcome": "refused", "code": code, "reason": reason, "why": why})

    def _note(self, record: Record) -> None:
        if self._write is not None:
            self._write({**self._about, **record})


_NOBODY = Call()
_current: ContextVar[Call] = ContextVar("ygs_call", default=_NOBODY)


def current_call() -> Call:
    """Return the call that is being served here; one of nobody if none is, or if the handler was called by itself."""
    return _current.get()


def serve_call(call: Call) -> None:
    """Make it the call that is served by this task and by those that it begins."""
    _current.set(call)
