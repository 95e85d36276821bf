"""What a binding file says, and its format: lines of printable ASCII, each with its line end.

1. The first line names the container's GPUs, comma separated: all by UUID (``GPU-…``) or all by index; empty: it has none.
2. Each further line is ``YGS_NAME=value``, for the container's environment; no name twice, none of those that steer the reader.
3. Or the file is one line, ``!`` and a reason: the container is not to be started.

What does not keep to this is neither written nor believed. The reader in containers, `bind_gpus.sh`, holds the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

GPUS_MAX = 64
GPUS_LETTERS_MAX = 6_000
VALUES_MAX = 32
VALUE_LETTERS_MAX = 65_536
REASON_LETTERS_MAX = 500
LETTERS_MAX = 262_144
"""Of a whole file."""

_INDEX = re.compile(r"[0-9]{1,4}\Z")
_UUID = re.compile(r"GPU-[A-Za-z0-9-]+\Z")
_NAME = re.compile(r"YGS_(?!BIND|BOUND|CHECKPOINT|SERVER_)[A-Z_]{1,60}\Z")
_VALUE = re.compile(r"[ -~]*\Z")
_LINES = re.compile(r"(?:[ -~]*\n)+\Z")


class UnfitBinding(ValueError):  # noqa: N818 - a name that says what is wrong
    """A binding cannot be written, or what was read is none."""


class Binding(msgspec.Struct, frozen=True):
    """A container's GPUs, by UUID or by index, and what else it is told, by name of the variable."""

    gpus: tuple[str, ...] = ()
    values: Mapping[str, str] = {}


class Refusal(msgspec.Struct, frozen=True):
    """A container that is not to be started, and why."""

    reason: str


def render(binding: Binding | Refusal) -> str:
    """Write a binding as its file; `UnfitBinding` names what does not fit. A reason is made to fit: it must always be told."""
    if isinstance(binding, Refusal):
        reason = re.sub(r"[^ -~]", "?", binding.reason[:REASON_LETTERS_MAX]).strip()
        return f"!{reason or 'no reason given'}\n"
    _check(binding)
    return "\n".join([",".join(binding.gpus), *(f"{name}={value}" for name, value in binding.values.items())]) + "\n"


def parse(text: str) -> Binding | Refusal:
    """Read a file; `UnfitBinding` says what is wrong with it."""
    if len(text) > LETTERS_MAX:
        raise UnfitBinding(f"a file of {len(text)} letters, should be at most {LETTERS_MAX}")
    if not _LINES.match(text):
        raise UnfitBinding(f"{text[:40]!r}, should be whole lines of printable ASCII")
    first, *others = text[:-1].split("\n")
    if first.startswith("!"):
        return _refusal(first[1:], others)
    values = dict(line.partition("=")[::2] for line in others if "=" in line)
    if len(values) < len(others):
        raise UnfitBinding("lines after the first should be NAME=value, no name twice")
    binding = Binding(tuple(first.split(",")) if first else (), values)
    _check(binding)
    return binding


def _refusal(reason: str, others: list[str]) -> Refusal:
    if others or not reason or len(reason) > REASON_LETTERS_MAX:
        raise UnfitBinding(f"a refusal should be one line of ! and a reason of at most {REASON_LETTERS_MAX} letters")
    return Refusal(reason)


def _check(binding: Binding) -> None:
    _check_gpus(binding.gpus)
    if len(binding.values) > VALUES_MAX:
        raise UnfitBinding(f"{len(binding.values)} values, should be at most {VALUES_MAX}")
    for name, value in binding.values.items():
        if not _NAME.match(name):
            raise UnfitBinding(f"{name[:80]!r}, should be a name such as YGS_RANK, and none of the reader's own")
        if len(value) > VALUE_LETTERS_MAX or not _VALUE.match(value):
            raise UnfitBinding(
                f"{name}: {value[:40]!r}, should be printable ASCII, at most {VALUE_LETTERS_MAX} letters"
            )


def _check_gpus(gpus: tuple[str, ...]) -> None:
    line = ",".join(gpus)
    if len(gpus) > GPUS_MAX or len(line) > GPUS_LETTERS_MAX:
        raise UnfitBinding(
            f"{len(gpus)} GPUs in {len(line)} letters, should be at most {GPUS_MAX} in {GPUS_LETTERS_MAX}"
        )
    if not any(all(map(form.match, gpus)) for form in (_INDEX, _UUID)):
        raise UnfitBinding(f"GPUs {line[:80]!r}, should all be indices such as 0,3 or all UUIDs such as GPU-1a2b")
    if len(set(gpus)) < len(gpus):
        raise UnfitBinding(f"GPUs {line[:80]!r}, should name each once")
