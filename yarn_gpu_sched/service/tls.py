"""What the service presents and whom it trusts: three files, read again whenever they change, without a restart."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable

import grpc
import structlog

from yarn_gpu_sched.identity import BadCertificate, Material, Role, TlsFiles, utc_now
from yarn_gpu_sched.service.clock import Clock, Timer
from yarn_gpu_sched.service.metrics import Metrics

LOOK_S = 60.0
"""Seconds between two looks at the files while nobody connects."""
WARN_BEFORE = dt.timedelta(days=14)
WARN_EVERY_S = 86_400.0

_log = structlog.get_logger(__name__)


class ServiceTls:
    """One set of files for all that listens. New connections get what the files hold; those that are open go on."""

    def __init__(
        self, files: TlsFiles, clock: Clock, metrics: Metrics, now: Callable[[], dt.datetime] = utc_now
    ) -> None:
        """Read the files; `BadCertificate` if they cannot be used, are not the service's or have expired."""
        self.files = files
        self._clock = clock
        self._metrics = metrics
        self._now = now
        self._lock = threading.Lock()
        self._version = 0
        self._timer: Timer | None = None
        self._warned_s: float | None = None
        self._seen = self._stamp()
        self.material = self._checked()
        self._show()

    def credentials(self, begins: Callable[[], None]) -> grpc.ServerCredentials:
        """Make what a port is opened with: callers need a certificate. ``begins`` is called for each connection, on any thread."""
        served = self._version

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            nonlocal served
            begins()
            self.look()
            with self._lock:
                if served == self._version:
                    return None
                served = self._version
                return _configuration(self.material)

        return grpc.dynamic_ssl_server_credentials(
            _configuration(self.material),
            fetch,  # type: ignore[arg-type] # None is no change, says gRPC; its types do not know that
            require_client_authentication=True,
        )

    def start(self) -> None:
        """Look at the files and at their expiry now and again."""
        self.look()
        self._warn()
        self._timer = self._clock.call_at(self._clock.now_s() + LOOK_S, self.start)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self) -> None:
        """Take what the files hold if they have changed; what cannot be used is said once, and the old goes on. On any thread."""
        with self._lock:
            stamp = self._stamp()
            if stamp == self._seen:
                return
            self._seen = stamp
            try:
                self.material = self._checked()
            except BadCertificate as bad:
                self._metrics.tls_reload_failures.inc()
                _log.error("certificate_not_taken", error=str(bad))
                return
            self._version += 1
            self._warned_s = None
            self._show()
            _log.info(
                "certificate_taken", identity=str(self.material.identity), expires=self.material.expires.isoformat()
            )

    def _checked(self) -> Material:
        material = self.files.read()
        identity = material.identity
        if identity is None or identity.role is not Role.SERVICE:
            named = identity.uri if identity else "nobody"
            raise BadCertificate(f"{self.files.certificate}: must name ygs://service/NAME, and names {named}")
        for path, expires in (
            (self.files.certificate, material.expires),
            (self.files.authority, material.authority_expires),
        ):
            if expires <= self._now():
                raise BadCertificate(f"{path}: must not have expired, and did at {expires:%Y-%m-%dT%H:%M:%SZ}")
        return material

    def _stamp(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Say what a change of the files changes."""
        found: list[tuple[int, int, int] | None] = []
        for path in self.files.paths:
            try:
                stat = path.stat()
            except OSError:
                found.append(None)
            else:
                found.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
        return tuple(found)

    def _expiries(self) -> tuple[tuple[str, dt.datetime], ...]:
        return ("certificate", self.material.expires), ("authority", self.material.authority_expires)

    def _show(self) -> None:
        for file, expires in self._expiries():
            self._metrics.certificate_expires.labels(file).set(expires.timestamp())

    def _warn(self) -> None:
        """Say once a day what expires soon."""
        now_s = self._clock.now_s()
        soon = [(file, expires) for file, expires in self._expiries() if expires - self._now() < WARN_BEFORE]
        if not soon or (self._warned_s is not None and now_s - self._warned_s < WARN_EVERY_S):
            return
        self._warned_s = now_s
        for file, expires in soon:
            _log.warning("certificate_expires", file=file, expires=expires.isoformat())


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], root_certificates=material.authority
    )
