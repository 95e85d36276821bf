"""What the service listens with: servers behind the gate, plain or with TLS, and the audit log of who came."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from grpc import aio

from yarn_gpu_sched.exporter import Exporter
from yarn_gpu_sched.identity import BadCertificate, unix_path
from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX
from yarn_gpu_sched.service.addresses import Address
from yarn_gpu_sched.service.arrivals import Arrivals
from yarn_gpu_sched.service.audit_log import AuditLog, UnfitAuditLog, audit_path
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.gate import Gate
from yarn_gpu_sched.service.metrics import Metrics
from yarn_gpu_sched.service.settings import Settings
from yarn_gpu_sched.service.tls import ServiceTls

STREAMS_PER_CONNECTION_MAX = 128
_UMASK_OF_SOCKETS = 0o117  # owner and group: whoever may connect may do everything

_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_concurrent_streams", STREAMS_PER_CONNECTION_MAX),
    ("grpc.so_reuseport", 0),  # a second service on the same port must fail, not share it
    # A peer that pings every 10 s is welcome; one that went away is noticed.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class CannotStart(RuntimeError):  # noqa: N818 - a name that says what is wrong
    """The service cannot start; the text says why in one sentence."""


class Listening:
    """Makes servers and opens their ports."""

    def __init__(self, settings: Settings, clock: Clock, metrics: Metrics) -> None:
        """Read the files of TLS, and open the audit log. Raises `CannotStart`."""
        self._settings = settings
        self._metrics = metrics
        try:
            self.tls = ServiceTls(settings.tls_files, clock, metrics) if settings.tls_files else None
            self.audit = AuditLog(
                audit_path(settings.audit_log, settings.state_dir),
                metrics,
                bytes_max=settings.audit_file_mb_max << 20,
                files_max=settings.audit_files_max,
            )
        except (BadCertificate, UnfitAuditLog) as error:
            raise CannotStart(str(error)) from error
        self.arrivals = Arrivals(clock, metrics, self.audit.write)
        self.gate = Gate(self.audit.write, metrics, self.arrivals.called)

    def server(self, calls_max: int) -> aio.Server:
        """Make a server whose every call passes the gate."""
        return aio.server(interceptors=(self.gate,), options=_OPTIONS, maximum_concurrent_rpcs=calls_max)

    def open(self, server: aio.Server, address: Address, setting: str) -> int:
        """Open a port, and return its number; 0 for a Unix socket. Raises `CannotStart`."""
        try:
            port = self._add(server, address)
        except RuntimeError:
            port = 0
        if port == 0:
            raise CannotStart(f"{setting}: {address} is in use or cannot be listened on")
        return 0 if address.unix else port

    def _add(self, server: aio.Server, address: Address) -> int:
        if address.unix:
            with _own_socket(unix_path(address.host)) as free:
                return server.add_insecure_port(str(address)) if free else 0
        if self._settings.has_tls(address):
            assert self.tls is not None, "the settings require it"
            port = server.add_secure_port(str(address), self.tls.credentials(self.arrivals.begins))
            self.arrivals.ports.add(port)
            return port
        return server.add_insecure_port(str(address))

    def export(self, address: Address) -> Exporter:
        """Let Prometheus read. Raises `CannotStart`."""
        files = self._settings.tls_files if self._settings.has_tls(address) else None
        try:
            return Exporter(address.host, address.port, self._metrics.registry, files)
        except (OSError, BadCertificate) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise CannotStart(f"metrics_listen: {address} cannot be listened on: {why}") from error

    def start(self) -> None:
        """Look at certificates now and again."""
        if self.tls is not None:
            self.tls.start()
            self.arrivals.start()

    def close(self) -> None:
        """Write what the audit log has still to be told."""
        if self.tls is not None:
            self.tls.stop()
            self.arrivals.stop()
        self.audit.close()


@contextlib.contextmanager
def _own_socket(path: str) -> Iterator[bool]:
    """Make what is bound meanwhile open to owner and group only; false if somebody listens there, whom gRPC would replace."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
        try:
            probe.connect(path)
        except OSError:
            answered = False
        else:
            answered = True
    if answered or (Path(path).exists() and not Path(path).is_socket()):
        yield False
        return
    before = os.umask(_UMASK_OF_SOCKETS)
    try:
        yield True
    finally:
        os.umask(before)
