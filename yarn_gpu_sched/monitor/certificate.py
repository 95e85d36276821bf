"""Looks when the monitor's certificate expires, and says so in time."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING

import structlog

from yarn_gpu_sched.identity import BadCertificate, TlsFiles, utc_now

if TYPE_CHECKING:
    from collections.abc import Callable

    from yarn_gpu_sched.monitor.clock import Clock

LOOK_S = 60.0
WARN_BEFORE = dt.timedelta(days=14)
WARN_EVERY_S = 86_400.0

_log = structlog.get_logger(__name__)


class CertificateWatch:
    """``expires_s``: when the certificate on the disk expires, in seconds since 1970; None while it cannot be read."""

    def __init__(self, files: TlsFiles, now: Callable[[], dt.datetime] = utc_now) -> None:
        self.expires_s: float | None = None
        self._files = files
        self._now = now
        self._warned_s: float | None = None
        self._broken = ""

    async def run(self, clock: Clock) -> None:
        """Look now and again until cancelled."""
        while True:
            await asyncio.to_thread(self.look, clock.now_s())
            await clock.wait(LOOK_S)

    def look(self, now_s: float) -> None:
        """Look once. Blocks."""
        try:
            expires = self._files.read().expires
        except BadCertificate as bad:
            self.expires_s = None
            if str(bad) != self._broken:
                self._broken = str(bad)
                _log.error("certificate_unreadable", error=self._broken)
            return
        self._broken, self.expires_s = "", expires.timestamp()
        due = self._warned_s is None or now_s - self._warned_s >= WARN_EVERY_S
        if expires - self._now() < WARN_BEFORE and due:
            self._warned_s = now_s
            _log.warning("certificate_expires", expires=expires.isoformat())
