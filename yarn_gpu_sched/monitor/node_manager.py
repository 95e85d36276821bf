"""Which GPUs the NodeManager itself assigned to containers, from its REST: `/ws/v1/node/resources/yarn.io%2Fgpu`.

It does so with LinuxContainerExecutor: its list of all devices is filled then, and empty with any other executor, whose containers
get what the scheduling service decided. Hadoop 3.4 writes the lists at the top and devices with index and minor number; Hadoop 3.5
writes them below ``nmGpuResourceInfo`` and leaves index and minor number out, so that of a container only the number of its GPUs is
known. What is not told is None here, never a guess.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from yarn_gpu_sched.monitor.processes import cleaned_text
from yarn_gpu_sched.monitor.reading import GPUS_MAX

TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 1_048_576
_PATH = "/ws/v1/node/resources/yarn.io%2Fgpu"
_WRAPPED = "nmGpuResourceInfo"
_OTHER_EXECUTOR = b"Linux Container Executor is not configured"
_NOT_FOUND = 404
_CHUNK_BYTES = 65_536
_NUMBER_MAX = 1_023
_WORDS_LETTERS_MAX = 200
_CONTAINER = re.compile(r"container_(?:e[0-9]{1,10}_)?[0-9]{1,20}_[0-9]{1,10}_[0-9]{1,10}_[0-9]{1,19}\Z")


class NodeManagerSilent(RuntimeError):  # noqa: N818 - a name that says what is wrong
    """The NodeManager did not answer, or not so that it could be read: what was last known of it still holds."""


class Device(msgspec.Struct, frozen=True):
    """A GPU as the NodeManager knows it: place in the order of nvidia-smi when it started, and number of the device file."""

    index: int | None = None
    minor: int | None = None


class NodeDevices(msgspec.Struct, frozen=True):
    """All GPUs that a NodeManager gives out, and those that it gave, by container."""

    total: tuple[Device, ...]
    assigned: Mapping[str, tuple[Device, ...]]

    def differs(self, cards: int) -> str:
        """Say how the number of its GPUs differs from that of the cards that were found; empty: it does not."""
        if len(self.total) == cards:
            return ""
        return f"the NodeManager gives out {len(self.total)} GPUs, this server has {cards}"

    def slots(self, cards: Iterable[tuple[int, int | None, int | None]]) -> dict[str, list[int]] | None:
        """Return slots by container, given the (slot, index, minor) of each card; None: some device is none of them.

        The minor number goes before the index: the NodeManager counted when it started, and a card may have vanished since.
        """
        known = list(cards)
        by_minor = {minor: slot for slot, _index, minor in known if minor is not None}
        by_index = {index: slot for slot, index, _minor in known if index is not None}
        found: dict[str, list[int]] = {}
        for container_id, devices in self.assigned.items():
            places = [_slot(device, by_minor, by_index) for device in devices]
            slots = sorted({slot for slot in places if slot is not None})
            if len(slots) < len(devices):
                return None
            found[container_id] = slots
        return found


def _slot(device: Device, by_minor: Mapping[int, int], by_index: Mapping[int, int]) -> int | None:
    if device.minor is not None and by_minor:
        return by_minor.get(device.minor)
    return None if device.index is None else by_index.get(device.index)


def read_node_manager(address: str, timeout_s: float = TIMEOUT_S) -> NodeDevices | None:
    """Ask the NodeManager at an address such as ``http://127.0.0.1:8042``; None: it assigns no GPUs itself.

    Raises `NodeManagerSilent`.
    """
    body = _answer(address.rstrip("/") + _PATH, timeout_s)
    return None if body is None else parse(body)


def parse(body: bytes) -> NodeDevices | None:
    """Read an answer; None: the NodeManager assigns no GPUs itself. Raises `NodeManagerSilent`."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NodeManagerSilent(
            f"the answer is no JSON: {cleaned_text(str(error).encode(), _WORDS_LETTERS_MAX)}"
        ) from error
    if isinstance(answer, dict) and _WRAPPED in answer:
        answer = answer[_WRAPPED]
    if not isinstance(answer, dict):
        raise NodeManagerSilent(f"the answer is {type(answer).__name__}, should be an object")
    total = tuple(_device(entry) for entry in _entries(answer, "totalGpuDevices"))
    assigned: dict[str, tuple[Device, ...]] = {}
    for entry in _entries(answer, "assignedGpuDevices"):
        container_id = entry.get("containerId")
        if not isinstance(container_id, str) or not _CONTAINER.match(container_id):
            raise NodeManagerSilent(
                f"assignedGpuDevices: containerId is {container_id!r:.80}, should be a container's id"
            )
        assigned[container_id] = (*assigned.get(container_id, ()), _device(entry))
    return NodeDevices(total, assigned) if total else None


def _entries(answer: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = answer.get(name)
    # One alone may come without a list.
    entries = [] if found is None else [found] if isinstance(found, dict) else found
    if (
        not isinstance(entries, list)
        or len(entries) > GPUS_MAX
        or not all(isinstance(entry, dict) for entry in entries)
    ):
        raise NodeManagerSilent(f"{name} should be a list of at most {GPUS_MAX} devices")
    return entries


def _device(entry: Mapping[str, Any]) -> Device:
    return Device(_number(entry.get("index")), _number(entry.get("minorNumber")))


def _number(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,4}", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _NUMBER_MAX else None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Another address than the NodeManager's says nothing about it."""

    def redirect_request(self, *_arguments: object) -> None:
        """Follow nobody."""


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def _answer(url: str, timeout_s: float) -> bytes | None:
    if not url.startswith(("http://", "https://")):
        raise NodeManagerSilent(f"{url[:80]!r} should be an address such as http://127.0.0.1:8042")
    deadline_s = time.monotonic() + timeout_s
    try:
        request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - http alone, see above
        with _OPENER.open(request, timeout=timeout_s) as response:
            return _body(response, deadline_s)
    except urllib.error.HTTPError as error:
        with error:
            _judge(error, deadline_s)
            return None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NodeManagerSilent(f"no answer: {cleaned_text(str(error).encode(), _WORDS_LETTERS_MAX)}") from error


def _judge(error: urllib.error.HTTPError, deadline_s: float) -> None:
    """Return where a refusal means that it assigns nothing; raise where it says nothing of that."""
    try:
        body = b"" if error.code == _NOT_FOUND else _body(error, deadline_s)
    except (OSError, ValueError, http.client.HTTPException):
        body = b""
    if error.code != _NOT_FOUND and _OTHER_EXECUTOR not in body:
        raise NodeManagerSilent(f"the answer has status {error.code}") from error


def _body(response: http.client.HTTPResponse | urllib.error.HTTPError, deadline_s: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read1(_CHUNK_BYTES):
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise NodeManagerSilent(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        if time.monotonic() > deadline_s:
            raise NodeManagerSilent("the answer did not end in time")
    return b"".join(parts)
