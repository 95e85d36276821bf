"""How the library connects: one place for the address, the options and the bounds of a message."""

from __future__ import annotations

import grpc

from yarn_gpu_sched.identity import TlsFiles, is_unix, plain_refusal

DEFAULT_TARGET = "127.0.0.1:7433"
MESSAGE_BYTES_MAX = 4 * 1024 * 1024

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.enable_http_proxy", 0),  # nothing between a cluster's own servers is a proxy's
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # how long one attempt may take: a busy machine is slow to shake hands
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    # Two clients of one process must not share a connection: closing one would not close its link.
    ("grpc.use_local_subchannel_pool", 1),
)


def open_channel(target: str, tls: TlsFiles | None = None) -> grpc.Channel:
    """Return a channel to ``target``: host:port, or ``unix:/path``, which never has TLS.

    ``tls`` are the caller's certificate, its key and the authority of the service, read now. Raises `identity.BadCertificate`, and
    ValueError for an address that is not on this machine without ``tls``.
    """
    if tls is None or is_unix(target):
        if why := plain_refusal(target):
            raise ValueError(why)
        return grpc.insecure_channel(target, options=_OPTIONS)
    material = tls.read()
    credentials = grpc.ssl_channel_credentials(material.authority, material.key, material.certificate)
    return grpc.secure_channel(target, credentials, options=_OPTIONS)
