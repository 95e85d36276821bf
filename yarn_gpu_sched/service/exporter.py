"""Lets Prometheus read the metrics, on loopback, from a thread of its own."""

from prometheus_client import CollectorRegistry, start_http_server

from yarn_gpu_sched.service.addresses import Address


class Exporter:
    """An HTTP server for one registry. OSError if the port is in use."""

    def __init__(self, address: Address, registry: CollectorRegistry) -> None:
        self._server, self._thread = start_http_server(address.port, address.host, registry=registry)
        self.port = int(self._server.server_port)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
