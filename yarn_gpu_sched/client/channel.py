"""How the library connects: one place for the address, the options and the bounds of a message."""

import grpc

DEFAULT_TARGET = "127.0.0.1:7433"
MESSAGE_BYTES_MAX = 4 * 1024 * 1024

_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.enable_http_proxy", 0),  # loopback never goes through a proxy
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # how long one attempt may take: a busy machine is slow to shake hands
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    # Two clients of one process must not share a connection: closing one would not close its link.
    ("grpc.use_local_subchannel_pool", 1),
)


def open_channel(target: str) -> grpc.Channel:
    """Return a channel to ``target`` (host:port on loopback; unencrypted until mTLS arrives)."""
    return grpc.insecure_channel(target, options=_OPTIONS)
