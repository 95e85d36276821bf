"""What nvidia-smi writes for one value: a number with its unit, a name, or in many words that it has none.

``N/A``, ``[N/A]``, ``[Not Supported]``, ``[Unknown Error]``, an empty text and whatever else is no value give None, never 0.
A number that cannot be is returned as it stands: it is dropped, and counted, by whoever judges readings.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(-?[0-9]{1,20})(?: ?(MiB|MB|%|C))?\Z")
_DECIMAL = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,6})?)(?: ?W)?\Z")
_UUID = re.compile(r"GPU-[A-Za-z0-9-]{1,80}\Z")
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\Z")
_NO_VALUE = re.compile(r"\[.*\]|(?:N/A|None|(?:Not Supported|Unknown Error|GPU is lost|ERR!).*)\Z", re.IGNORECASE)
_SWITCH = {"Enabled": True, "Disabled": False}


def number(text: str | None, unit: str = "") -> int | None:
    """Read a whole number; its unit may be left out, another one is none."""
    found = _NUMBER.match((text or "").strip())
    return int(found[1]) if found and found[2] in (None, *unit.split("|")) else None


def decimal(text: str | None) -> float | None:
    """Read a number of watts."""
    found = _DECIMAL.match((text or "").strip())
    return float(found[1]) if found else None


def mebibytes(text: str | None) -> int | None:
    """Read an amount of memory."""
    return number(text, "MiB|MB")


def percent(text: str | None) -> int | None:
    """Read a part of the time."""
    return number(text, "%")


def uuid(text: str | None) -> str | None:
    """Read a card's identity."""
    found = _UUID.match((text or "").strip())
    return found[0] if found else None


def bus_id(text: str | None) -> str | None:
    """Read where a card sits."""
    found = _BUS_ID.match((text or "").strip())
    return found[0] if found else None


def switch(text: str | None) -> bool | None:
    """Read what is enabled or disabled."""
    return _SWITCH.get((text or "").strip())


def name(text: str | None) -> str | None:
    """Read a name."""
    stripped = (text or "").strip()
    return stripped if stripped and not _NO_VALUE.match(stripped) else None
