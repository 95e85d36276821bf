"""The HTTP server of the metrics, with a thread of its own and one for each reader."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from yarn_gpu_sched.identity import TlsFiles

TIMEOUT_S = 10.0
"""Seconds that a reader may take between two bytes, the handshake included: each reader is a thread."""


class Exporter:
    """Serves one registry. OSError if the port is in use; with ``tls`` who reads needs a certificate of the authority.

    Its files are read at every new connection; while they cannot be used, those that were read last are.
    """

    def __init__(self, host: str, port: int, registry: CollectorRegistry, tls: TlsFiles | None = None) -> None:
        """Listen. Raises `identity.BadCertificate` too."""
        self._context = _Context(tls) if tls else None
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, (bare, *_) = found[0]
        kind = type("Server", (_Server,), {"address_family": family, "tls": self._context})
        handler = type("Handler", (_Handler,), {"timeout": TIMEOUT_S})
        self._server: WSGIServer = make_server(str(bare), port, make_wsgi_app(registry), kind, handler_class=handler)
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(target=self._server.serve_forever, name="exporter", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of each reading."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    tls: _Context | None = None

    def get_request(self) -> tuple[Any, Any]:
        """Accept a reader; the handshake is made in its thread, so that one who says nothing holds up nobody."""
        accepted, address = super().get_request()
        if self.tls is not None:
            accepted.settimeout(TIMEOUT_S)
            accepted = self.tls.now().wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        return accepted, address

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the class above has it
        """Say nothing of a reader that goes away, or is not let in."""


class _Context:
    """What TLS needs, made anew when the files have changed."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._material = files.read()
        self._made = self._make()

    def now(self) -> ssl.SSLContext:
        """Return what holds now."""
        try:
            material = self._files.read()
            if material != self._material:
                self._made = self._make()
                self._material = material
        except (ValueError, OSError):  # BadCertificate and ssl's own: a file that is being replaced
            pass
        return self._made

    def _make(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._files.certificate, self._files.key)
        context.load_verify_locations(self._files.authority)
        context.verify_mode = ssl.CERT_REQUIRED
        return context
