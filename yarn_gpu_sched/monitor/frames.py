"""How the child that reads GPUs answers: a length of four bytes, and a reading."""

from __future__ import annotations

from typing import Final

import msgspec

from yarn_gpu_sched.monitor.reading import GpusReading

ASK: Final = b"?"
"""What asks for one reading."""
HEADER_BYTES: Final = 4
FRAME_BYTES_MAX: Final = 8 << 20

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(GpusReading)


class BadFrame(ValueError):  # noqa: N818 - a name that says what is wrong
    """What came is no reading."""


def encode(reading: GpusReading) -> bytes:
    """Return the frame of a reading."""
    body = _ENCODER.encode(reading)
    if len(body) > FRAME_BYTES_MAX:
        raise BadFrame(f"a reading of {len(body)} bytes; at most {FRAME_BYTES_MAX} can be told")
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def length_of(header: bytes) -> int:
    """Return how many bytes follow a header."""
    length = int.from_bytes(header, "big")
    if not 0 < length <= FRAME_BYTES_MAX:
        raise BadFrame(f"a frame of {length} bytes; right would be 1 to {FRAME_BYTES_MAX}")
    return length


def decode(body: bytes) -> GpusReading:
    """Return the reading of a frame's body."""
    try:
        reading = _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise BadFrame(f"no reading: {error}") from error
    if (reading.gpus is None) == (reading.failure is None):
        raise BadFrame("a reading with GPUs and a failure, or with neither")
    return reading
