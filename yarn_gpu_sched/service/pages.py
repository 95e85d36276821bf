"""Pages of a listing: how long, and where the next one begins."""

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import TypeVar

from google.protobuf.message import Message

from yarn_gpu_sched.protocol.bounds import (
    MESSAGE_BYTES_MAX,
    PAGE_SIZE_DEFAULT,
    PAGE_SIZE_MAX,
    PATH_CHARACTERS_MAX,
    checked_count,
)
from yarn_gpu_sched.protocol.convert import BadField

# What an answer holds beside its rows.
_ENVELOPE_BYTES = 16 * 1024
_ROW_BYTES = 8

View = TypeVar("View")
Row = TypeVar("Row", bound=Message)


def page_size(asked: int) -> int:
    """Say how many rows to send at most: 0 asks for the default."""
    return checked_count("page_size", asked, 0, PAGE_SIZE_MAX) or PAGE_SIZE_DEFAULT


def page_token(last: str) -> str:
    """Name the page after the row with this id."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def page_after(token: str) -> str:
    """Read a token back: the id after which the page begins; empty for the first."""
    try:
        after = base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadField("page_token", token, "next_page_token of the answer before") from None
    if len(after) > PATH_CHARACTERS_MAX:
        raise BadField("page_token", token, "next_page_token of the answer before")
    return after


def fill_page(
    views: Iterable[View], size: int, convert: Callable[[View], Row], name: Callable[[View], str]
) -> tuple[list[Row], str]:
    """Convert rows until the page is full, by count or by bytes.

    Returns the rows and the token of the next page, empty if there is none. ``views`` must have
    one more than ``size`` if there are more.
    """
    rows: list[Row] = []
    left_bytes = MESSAGE_BYTES_MAX - _ENVELOPE_BYTES
    last = ""
    for view in views:
        row = convert(view)
        left_bytes -= row.ByteSize() + _ROW_BYTES
        if len(rows) == size or (left_bytes < 0 and rows):
            return rows, page_token(last)
        rows.append(row)
        last = name(view)
    return rows, ""
