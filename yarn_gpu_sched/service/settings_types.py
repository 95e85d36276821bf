"""Types of settings: what of a value is checked beyond its range, and what would be right."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import pydantic

from yarn_gpu_sched.service.addresses import listening

TLS_KEYS = ("tls_certificate", "tls_key", "tls_authority")
"""The settings that make TLS possible, together."""

SECONDS_MIN = 0.001
"""Least seconds of a timer, where there is one."""

RESERVE_AFTER_MIN_S = 1.0
"""Least seconds before places are kept, where any are."""


def _has_tls(about: pydantic.ValidationInfo) -> bool:
    return all(about.data.get(key) for key in TLS_KEYS)


def _listen(text: str, about: pydantic.ValidationInfo) -> str:
    return str(listening(text, tls=_has_tls(about), unix=True))


def _maybe_listen(text: str, about: pydantic.ValidationInfo) -> str:
    return str(listening(text, tls=_has_tls(about))) if text else ""


def _absolute(text: str) -> str:
    if text and not Path(text).is_absolute():
        raise ValueError("must be an absolute path, or empty")
    if "\0" in text:
        raise ValueError("must be a path without NUL characters")
    return text


def _seconds(value: float) -> float:
    if 0 < value < SECONDS_MIN:
        raise ValueError("must be 0, or 0.001 to 86400")
    return value


def _reserve_after(value: float) -> float:
    if 0 < value < RESERVE_AFTER_MIN_S:
        raise ValueError("must be 0, or 1 to 31536000")
    return value


def _archive_url(text: str) -> str:
    parts = urlsplit(text)
    right = parts.scheme in ("http", "https") and parts.hostname and parts.path in ("", "/")
    if text and (not right or parts.query or parts.fragment or parts.username is not None):
        raise ValueError("must be http://host:port or https://host:port, without a path, or empty")
    return text.rstrip("/")


def _hdfs_path(text: str) -> str:
    names = text.split("/")
    if names[0] or any(name in ("", ".", "..") for name in names[1:]) or not text.isprintable():
        raise ValueError("must be an absolute path in HDFS, without the root itself")
    return text


Listen = Annotated[str, pydantic.AfterValidator(_listen)]
MaybeListen = Annotated[str, pydantic.AfterValidator(_maybe_listen)]
MaybeFile = Annotated[str, pydantic.AfterValidator(_absolute)]
MaybeDirectory = Annotated[str, pydantic.AfterValidator(_absolute)]
ArchiveUrl = Annotated[str, pydantic.AfterValidator(_archive_url)]
HdfsPath = Annotated[str, pydantic.AfterValidator(_hdfs_path)]
Seconds = Annotated[float, pydantic.AfterValidator(_seconds)]
ReserveAfter = Annotated[float, pydantic.AfterValidator(_reserve_after)]
