"""As much of a list as one message may hold."""

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import Message

from yarn_gpu_sched.protocol.bounds import MESSAGE_BYTES_MAX

_ENVELOPE_BYTES = 16 * 1024
_ROW_BYTES = 8

Row = TypeVar("Row", bound=Message)


def fitting(rows: Iterable[Row]) -> tuple[list[Row], int]:
    """Take as many rows as fit into one message; return them, and how many are left out."""
    taken: list[Row] = []
    left_bytes, left_out = MESSAGE_BYTES_MAX - _ENVELOPE_BYTES, 0
    for row in rows:
        row_bytes = row.ByteSize() + _ROW_BYTES
        if row_bytes > left_bytes:
            left_out += 1
        else:
            left_bytes -= row_bytes
            taken.append(row)
    return taken, left_out
