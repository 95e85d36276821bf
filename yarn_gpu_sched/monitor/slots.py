"""The slots of a server's cards, kept over restarts: a card keeps its slot when others vanish and nvidia-smi counts anew.

A card is known by its UUID. It gets a slot when it is first seen, in the order of nvidia-smi: the first slot whose card has
vanished, else a new one at the end. A card that comes back while nobody took its slot has it again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from yarn_gpu_sched.monitor.reading import GPUS_MAX, GpuReading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FILE_NAME = "slots.json"
FILE_BYTES_MAX = 1 << 20
VERSION = 1
UUID_CHARACTERS_MAX = 96
_NEW = ".new"
_BROKEN = ".broken"

_log = structlog.get_logger(__name__)


class Card(msgspec.Struct, forbid_unknown_fields=True):
    """A card that has a slot, as it was last seen. ``index``: its place then, None: it had vanished."""

    uuid: str
    index: int | None = None
    model: str = ""
    memory_mb: int = 0
    pci_bus_id: str = ""


class _Kept(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    exclude: tuple[str, ...]
    excluded_uuids: list[str]
    cards: list[Card]


class BrokenFile(ValueError):  # noqa: N818 - a name that says what is wrong
    """The file of slots cannot be used."""


class Slots:
    """Who is in which slot. ``cards`` has the cards by slot, ``now`` the GPUs by slot as they were last read."""

    def __init__(self, state_dir: Path | None, exclude: Sequence[str] = ()) -> None:
        """Read what was kept. A file that is broken is set aside and said. Raises OSError if the directory cannot be used."""
        self.cards: list[Card] = []
        self.now: dict[int, GpuReading] = {}
        self._exclude = tuple(exclude)
        self._excluded: dict[str, None] = {}
        self._slots: dict[str, int] = {}
        self._unplaced: frozenset[str] = frozenset()
        self._indices_anew = False
        self._unsaved = False
        self.given_anew = True
        """They may be others than a monitor before this one gave, by which containers were told their GPUs."""
        self._path = state_dir / FILE_NAME if state_dir is not None else None
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._load(self._path)

    def slot(self, uuid: str) -> int | None:
        """Return the slot of a card, also of one that has vanished; None: it has none."""
        return self._slots.get(uuid)

    @property
    def vanished(self) -> list[int]:
        """Slots whose cards are not there."""
        return [slot for slot in range(len(self.cards)) if slot not in self.now]

    def place(self, gpus: Iterable[GpuReading]) -> None:
        """Take what was read: every card that gets one has its slot afterwards, and what changed is kept."""
        shown = {gpu.uuid: gpu for gpu in reversed(list(gpus)) if _can_be(gpu) and not self._is_excluded(gpu)}
        self._indices_anew = False
        # Two at one place cannot be: the first is taken for it, the other for not there.
        ordered = sorted({gpu.index: gpu for gpu in shown.values()}.values(), key=lambda gpu: gpu.index)
        new = [gpu for gpu in ordered if gpu.uuid not in self._slots]
        there = {gpu.uuid for gpu in ordered}
        empty = iter([slot for slot, card in enumerate(self.cards) if card.uuid not in there])
        unplaced = [gpu.uuid for gpu in new if not self._give(gpu, next(empty, len(self.cards)))]
        self._say_unplaced(frozenset(unplaced))
        self.now = {self._slots[gpu.uuid]: gpu for gpu in ordered if gpu.uuid in self._slots and gpu.index < GPUS_MAX}
        for slot in range(len(self.cards)):
            self._describe(slot, self.now.get(slot))
        self._save()

    def _give(self, gpu: GpuReading, slot: int) -> bool:
        if slot >= GPUS_MAX or gpu.index >= GPUS_MAX:
            return False
        if slot == len(self.cards):
            self.cards.append(Card(gpu.uuid))
        else:
            before = self.cards[slot]
            _log.warning("card_replaced", slot=slot, uuid=gpu.uuid, before=before.uuid)
            del self._slots[before.uuid]
            self.cards[slot] = Card(gpu.uuid)
        self._slots[gpu.uuid] = slot
        self._unsaved = True
        return True

    def _say_unplaced(self, uuids: frozenset[str]) -> None:
        if uuids - self._unplaced:
            _log.error("too_many_cards", uuids=sorted(uuids), slots_max=GPUS_MAX)
        self._unplaced = uuids

    def _describe(self, slot: int, gpu: GpuReading | None) -> None:
        """Keep what is known of a card; what is not available now stays as it was."""
        card = self.cards[slot]
        card_now = Card(card.uuid, None, card.model, card.memory_mb, card.pci_bus_id)
        if gpu is not None:
            card_now.index = gpu.index
            card_now.model = card.model if gpu.model is None else gpu.model
            card_now.memory_mb = card.memory_mb if gpu.memory_total_mb is None else gpu.memory_total_mb
            card_now.pci_bus_id = card.pci_bus_id if gpu.pci_bus_id is None else gpu.pci_bus_id
        if card_now != card:
            self.cards[slot] = card_now
            self._unsaved = True

    def _is_excluded(self, gpu: GpuReading) -> bool:
        if gpu.uuid in self._exclude or (gpu.model is not None and gpu.model in self._exclude):
            return True
        if gpu.uuid in self._excluded:
            return True
        # A place means the card that had it when it was first seen, or when this was set: it may be another's by now.
        settled = gpu.uuid in self._slots and not self._indices_anew
        if settled or str(gpu.index) not in self._exclude or len(self._excluded) >= GPUS_MAX:
            return False
        self._excluded[gpu.uuid] = None
        self._unsaved = True
        return True

    def _load(self, path: Path) -> None:
        try:
            kept = _kept(path)
        except FileNotFoundError:
            return
        except BrokenFile as error:
            aside = path.with_name(path.name + _BROKEN)
            os.replace(path, aside)  # noqa: PTH105 - both are named, as the rename of a new file is
            _log.error("slots_broken", file=str(path), aside=str(aside), error=str(error))
            return
        self.cards, self.given_anew = kept.cards, False
        self._slots = {card.uuid: slot for slot, card in enumerate(kept.cards)}
        if kept.exclude == self._exclude:
            self._excluded = dict.fromkeys(kept.excluded_uuids)
        else:
            self._indices_anew = self._unsaved = True

    def _save(self) -> None:
        if not self._unsaved or self._path is None:
            return
        kept = _Kept(VERSION, self._exclude, list(self._excluded), self.cards)
        try:
            _write(self._path, msgspec.json.encode(kept))
        except OSError as error:
            _log.error("slots_not_kept", file=str(self._path), error=str(error))
            return
        self._unsaved = False


def _can_be(gpu: GpuReading) -> bool:
    return 0 < len(gpu.uuid) <= UUID_CHARACTERS_MAX and gpu.index >= 0


def _kept(path: Path) -> _Kept:
    """Read a file of slots. Raises `BrokenFile` if it cannot be one."""
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise BrokenFile(f"has more than {FILE_BYTES_MAX} bytes")
    try:
        kept = msgspec.json.decode(content, type=_Kept)
    except msgspec.MsgspecError as error:
        raise BrokenFile(str(error)) from None
    if kept.version != VERSION:
        raise BrokenFile(f"version {kept.version} should be {VERSION}")
    if len(kept.cards) > GPUS_MAX or len(kept.excluded_uuids) > GPUS_MAX:
        raise BrokenFile(f"more than {GPUS_MAX} cards")
    if len({card.uuid for card in kept.cards}) != len(kept.cards):
        raise BrokenFile("one card has two slots")
    return kept


def _write(path: Path, content: bytes) -> None:
    """Replace a file as a whole, so that whoever is killed leaves the old one or the new one."""
    new = path.with_name(path.name + _NEW)
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)  # noqa: PTH105 - both are named
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
