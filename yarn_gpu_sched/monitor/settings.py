"""What can be set of the node monitor, with meaning, range and default. How settings are found: `settings_files`."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from yarn_gpu_sched.identity import TlsFiles, is_local, is_unix, unix_path
from yarn_gpu_sched.monitor.simulated.spec import parse

ENVIRONMENT_PREFIX = "YGS_MONITOR_"
HOST_CHARACTERS_MAX = 253
_PORT_MAX = 65_535


TLS_KEYS = ("tls_certificate", "tls_key", "tls_authority")
"""The settings that make TLS possible, together."""


def _local_or_tls(text: str, about: pydantic.ValidationInfo) -> str:
    if not is_local(text) and not all(about.data.get(key) for key in TLS_KEYS):
        right = "must be on loopback, for example 127.0.0.1, without tls_certificate, tls_key and tls_authority"
        raise ValueError(f"{right}: what is not encrypted stays on this machine")
    return text


def _address(text: str, about: pydantic.ValidationInfo) -> str:
    if is_unix(text):
        return f"unix:{unix_path(text)}"
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) <= _PORT_MAX:
        raise ValueError("must be host:port, for example 127.0.0.1:7433")
    return _local_or_tls(text, about)


def _listen(text: str, about: pydantic.ValidationInfo) -> str:
    host, _, port = text.rpartition(":")
    if text and (not host or not port.isascii() or not port.isdecimal() or int(port) > _PORT_MAX):
        raise ValueError("must be host:port, for example 127.0.0.1:9400, or empty")
    return _local_or_tls(text, about) if text else ""


def _host(text: str) -> str:
    if len(text) > HOST_CHARACTERS_MAX or not re.fullmatch(r"[A-Za-z0-9._-]*", text):
        raise ValueError("must be a host name as YARN knows it, or empty")
    return text


def _absolute(text: str) -> str:
    if text and not Path(text).is_absolute():
        raise ValueError("must be an absolute path, or empty")
    if "\0" in text:
        raise ValueError("must be a path without NUL characters")
    return text


def _simulate(text: str) -> str:
    if text:
        parse(text)  # says what is wrong and what would be right
    return text


def _url(text: str) -> str:
    if text and not re.fullmatch(r"https?://[^\s/]+/?", text):
        raise ValueError("must be the NodeManager's web address, for example http://127.0.0.1:8042, or empty")
    return text


Directory = Annotated[str, pydantic.AfterValidator(_absolute)]


def _setting(default: Any, meaning: str, right: str, **limits: Any) -> Any:  # noqa: ANN401 - as pydantic's own
    return Field(default, description=meaning, json_schema_extra={"right": right}, **limits)


class Settings(BaseSettings):
    """Everything that can be set of the monitor. docs/monitor.md has the same table; a test compares them."""

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True, validate_default=True)

    # The files of TLS come first: whether they are there decides which addresses may be used.
    tls_certificate: Directory = _setting(
        "",
        "This monitor's certificate in PEM, of ygs://monitor/HOST; empty: no TLS.",
        "an absolute path, or empty; all three of TLS or none",
    )
    tls_key: Directory = _setting("", "The key of that certificate.", "an absolute path of a PEM file, or empty")
    tls_authority: Directory = _setting(
        "",
        "Whose certificate the service needs.",
        "an absolute path of a PEM file with one authority or more, or empty",
    )
    service: Annotated[str, pydantic.AfterValidator(_address)] = _setting(
        "127.0.0.1:7433",
        "Where the scheduling service listens; beyond loopback and Unix sockets with TLS.",
        "host:port, or unix:/absolute/path",
    )
    host: Annotated[str, pydantic.AfterValidator(_host)] = _setting(
        "", "Name of this server as YARN knows it; empty: this host's own name.", "a host name, or empty"
    )
    state_dir: Directory = _setting(
        "",
        "Directory in which the slots of cards are kept; empty: they are given anew at each start.",
        "an absolute path of a directory that can be written, or empty",
    )
    binding_dir: Directory = _setting(
        "",
        "Directory of binding files, which bind_gpus.sh reads; empty: none are written.",
        "an absolute path of a directory that is empty or was a binding_dir before, or empty",
    )
    binding_names: Literal["uuid", "index"] = _setting(
        "uuid",
        "How containers are told their GPUs: by UUID, or by place in the order of nvidia-smi.",
        "uuid or index",
    )
    read_every_s: float = _setting(1.0, "Seconds from one reading of the GPUs to the next.", "0.1 to 60", ge=0.1, le=60)
    push_every_s: float = _setting(
        5.0, "Most seconds between two messages to the service while all is well.", "0.1 to 60", ge=0.1, le=60
    )
    read_timeout_s: float = _setting(
        5.0,
        "Seconds that a reading may take; then the reading process is ended and started anew.",
        "0.1 to 60",
        ge=0.1,
        le=60,
    )
    ring_max: int = _setting(
        4_096,
        "Events that are kept for the service while it is away; then the oldest go.",
        "16 to 1000000",
        ge=16,
        le=1_000_000,
    )
    source: Literal["nvml", "smi"] = _setting(
        "nvml", "How GPUs are read: by NVML, or by running nvidia-smi.", "nvml or smi"
    )
    simulate: Annotated[str, pydantic.AfterValidator(_simulate)] = _setting(
        "",
        "Simulated GPUs instead of this server's own; empty: none.",
        "a number, x and a model (4xV100), more of them joined by +, or empty",
    )
    scenario: Directory = _setting(
        "",
        "File that says what happens to simulated GPUs; empty: nothing does.",
        "an absolute path of a file, or empty; only with simulate",
    )
    exclude: str = _setting(
        "",
        "Cards that get no slot, such as one for a display: UUIDs, models and places in the order of nvidia-smi (the place that "
        "the card has when it is first seen), separated by commas.",
        "UUIDs, models or indices, separated by commas, or empty",
        max_length=4_096,
    )
    free_memory_mb_max: int = _setting(
        512, "Memory in MiB that may be in use on a GPU that counts as free.", "0 to 1000000", ge=0, le=1_000_000
    )
    end_strays: bool = _setting(
        False,  # noqa: FBT003 - the default of a switch
        "Ask processes that hold a GPU which is not their container's to end (SIGTERM), those of no container too.",
        "true or false",
    )
    node_manager: Annotated[str, pydantic.AfterValidator(_url)] = _setting(
        "",
        "Web address of this server's NodeManager, to learn which devices it assigns itself; empty: it assigns none.",
        "http://host:port, or empty",
    )
    metrics_listen: Annotated[str, pydantic.AfterValidator(_listen)] = _setting(
        "",
        "Where Prometheus may read; empty: nowhere. Beyond loopback it needs a certificate of tls_authority.",
        "host:port, or empty",
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "Least severe log line that is written.", "debug, info, warning or error"
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        if self.push_every_s < self.read_every_s:
            raise ValueError("push_every_s must be at least read_every_s")
        missing = [key for key in TLS_KEYS if not getattr(self, key)]
        if 0 < len(missing) < len(TLS_KEYS):
            given = next(key for key in TLS_KEYS if key not in missing)
            raise ValueError(f"{given} must come with {' and '.join(missing)}: of the three all or none")
        if self.scenario and not self.simulate:
            raise ValueError("scenario must be empty without simulate")
        return self

    @property
    def tls_files(self) -> TlsFiles | None:
        """What TLS needs, if there is any."""
        return TlsFiles(*(Path(getattr(self, key)) for key in TLS_KEYS)) if self.tls_certificate else None

    @property
    def host_name(self) -> str:
        """The server's name."""
        return self.host or socket.gethostname()

    @property
    def excluded(self) -> tuple[str, ...]:
        """What gets no slot."""
        return tuple(part for each in self.exclude.split(",") if (part := each.strip()))
