"""Cards keep their slots: whatever vanishes, comes back, is replaced, or is killed in between."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.monitor.server import gpu, gpus, uuid
from yarn_gpu_sched.monitor import slots as slots_module
from yarn_gpu_sched.monitor.reading import GPUS_MAX, GpuReading
from yarn_gpu_sched.monitor.slots import Slots


def places(slots: Slots) -> dict[int, str]:
    return {slot: gpu.uuid for slot, gpu in slots.now.items()}


def test_slots_are_given_in_the_order_of_nvidia_smi() -> None:
    slots = Slots(None)
    slots.place([gpu(7, 1), gpu(5, 0), gpu(6, 2)])
    assert places(slots) == {0: uuid(5), 1: uuid(7), 2: uuid(6)}


def test_a_vanished_card_leaves_its_slot_empty_and_nobody_moves() -> None:
    slots = Slots(None)
    slots.place(gpus(4))
    slots.place([gpu(0, 0), gpu(2, 1), gpu(3, 2)])
    assert places(slots) == {0: uuid(0), 2: uuid(2), 3: uuid(3)}
    assert slots.vanished == [1]
    assert slots.slot(uuid(1)) == 1


def test_a_card_that_comes_back_has_its_slot_again() -> None:
    slots = Slots(None)
    slots.place(gpus(4))
    slots.place([gpu(0, 0), gpu(2, 1), gpu(3, 2)])
    slots.place(gpus(4))
    assert places(slots) == {number: uuid(number) for number in range(4)}


def test_a_new_card_takes_the_first_empty_slot_else_a_new_one_at_the_end() -> None:
    slots = Slots(None)
    slots.place(gpus(4))
    slots.place([gpu(0, 0), gpu(9, 1), gpu(3, 2), gpu(8, 3), gpu(7, 4)])
    assert places(slots) == {0: uuid(0), 1: uuid(9), 2: uuid(8), 3: uuid(3), 4: uuid(7)}
    assert slots.slot(uuid(1)) is None


def test_slots_are_kept_over_restarts_with_what_is_known_of_the_cards(tmp_path: Path) -> None:
    first = Slots(tmp_path / "deep" / "state")
    first.place(gpus(4))
    again = Slots(tmp_path / "deep" / "state")
    assert again.cards == first.cards
    again.place([gpu(3, 0), gpu(0, 1)])
    assert places(again) == {0: uuid(0), 3: uuid(3)}
    assert again.cards[1].model == "Tesla V100-SXM2-32GB"


def test_what_is_not_available_now_stays_known() -> None:
    slots = Slots(None)
    slots.place([gpu(0)])
    slots.place([gpu(0, model=None, memory_total_mb=None, pci_bus_id=None)])
    card = slots.cards[0]
    assert (card.model, card.memory_mb, card.pci_bus_id) == ("Tesla V100-SXM2-32GB", 32_768, "00000000:10:00.0")


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    slots = Slots(tmp_path)
    slots.place(gpus(2))
    (tmp_path / "slots.json").unlink()
    slots.place(gpus(2))
    assert not (tmp_path / "slots.json").exists()


def test_whoever_is_killed_while_it_writes_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Slots(tmp_path).place(gpus(2))
    old = (tmp_path / "slots.json").read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        Slots(tmp_path).place(gpus(3))
    assert (tmp_path / "slots.json").read_bytes() == old


def test_a_full_disk_is_no_end_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = Slots(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(os, "replace", full)
        slots.place(gpus(2))
    assert not (tmp_path / "slots.json").exists()
    slots.place(gpus(2))
    assert len(Slots(tmp_path).cards) == 2


CARD = {"uuid": "GPU-a", "index": None, "model": "", "memory_mb": 0, "pci_bus_id": ""}
KEPT = {"version": 1, "exclude": [], "excluded_uuids": [], "cards": [CARD]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        json.dumps(KEPT | {"version": 2}).encode(),
        json.dumps(KEPT | {"cards": [CARD, CARD]}).encode(),
        json.dumps(KEPT | {"cards": [CARD | {"uuid": str(number)} for number in range(GPUS_MAX + 1)]}).encode(),
        json.dumps(KEPT | {"more": 1}).encode(),
        b" " * (slots_module.FILE_BYTES_MAX + 1),
    ],
)
def test_a_broken_file_is_set_aside_and_said(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slots.json").write_bytes(content)
    slots = Slots(tmp_path)
    assert slots.cards == []
    assert "slots_broken" in capsys.readouterr().out
    assert (tmp_path / "slots.json.broken").read_bytes() == content
    slots.place(gpus(2))
    assert len(Slots(tmp_path).cards) == 2


def test_the_file_that_breaks_is_really_read(tmp_path: Path) -> None:
    (tmp_path / "slots.json").write_text(json.dumps(KEPT))
    assert [card.uuid for card in Slots(tmp_path).cards] == ["GPU-a"]


def test_a_directory_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        Slots(tmp_path / "file")


def test_more_cards_than_slots_are_left_out_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    slots = Slots(None)
    slots.place(gpus(GPUS_MAX + 2))
    slots.place(gpus(GPUS_MAX + 2))
    assert len(slots.now) == len(slots.cards) == GPUS_MAX
    assert capsys.readouterr().out.count("too_many_cards") == 1


@pytest.mark.parametrize("wrong", [gpu(5, -1), GpuReading(uuid="", index=2), GpuReading(uuid="x" * 97, index=2)])
def test_c19_a_card_that_cannot_be_has_no_slot(wrong: GpuReading) -> None:
    slots = Slots(None)
    slots.place([gpu(0), gpu(1), wrong])
    assert places(slots) == {0: uuid(0), 1: uuid(1)}


def test_until_gpus_are_read_cards_are_where_they_were_last(tmp_path: Path) -> None:
    first = Slots(tmp_path)
    first.place(gpus(3))
    first.place([gpu(0, 0), gpu(2, 1)])
    assert [card.index for card in Slots(tmp_path).cards] == [0, None, 1]


def test_c19_two_cards_at_one_place_cannot_be() -> None:
    slots = Slots(None)
    slots.place([gpu(0, 0), gpu(1, 0), gpu(2, 1)])
    assert [(card.uuid, card.index) for card in slots.cards] == [(uuid(0), 0), (uuid(2), 1)]


def test_one_card_named_twice_has_one_slot() -> None:
    slots = Slots(None)
    slots.place([gpu(0, 0), gpu(0, 1), gpu(1, 2)])
    assert places(slots) == {0: uuid(0), 1: uuid(1)}


DISPLAY = {"model": "Quadro K620"}


@pytest.mark.parametrize("exclude", ["0", "Quadro K620", uuid(9)])
def test_c21_an_excluded_display_card_has_no_slot(exclude: str) -> None:
    slots = Slots(None, [exclude])
    slots.place([gpu(9, 0, **DISPLAY), *(gpu(number, number + 1, minor=3 - number) for number in range(4))])
    assert places(slots) == {number: uuid(number) for number in range(4)}


def display_at(index: int, *others: int) -> list[GpuReading]:
    numbers = [*others[:index], 9, *others[index:]]
    return [gpu(number, place) for place, number in enumerate(numbers)]


def test_a_card_excluded_by_its_place_stays_so_when_places_change(tmp_path: Path) -> None:
    slots = Slots(tmp_path, ["2"])
    slots.place(display_at(2, 0, 1, 2, 3))
    slots.place(display_at(1, 0, 2, 3))
    assert places(slots) == {0: uuid(0), 2: uuid(2), 3: uuid(3)}
    again = Slots(tmp_path, ["2"])
    again.place(display_at(1, 0, 2, 3))
    assert places(again) == places(slots)


def test_what_is_excluded_by_place_is_decided_anew_when_it_is_set_otherwise(tmp_path: Path) -> None:
    Slots(tmp_path, ["2"]).place(gpus(4))
    slots = Slots(tmp_path, ["0"])
    slots.place(gpus(4))
    assert places(slots) == {0: uuid(2), 1: uuid(1), 2: uuid(3)}
    again = Slots(tmp_path, ["0"])
    again.place(gpus(4))
    assert places(again) == places(slots)


def test_the_file_can_be_read_by_its_owner_only_as_a_whole(tmp_path: Path) -> None:
    Slots(tmp_path).place(gpus(1))
    assert os.listdir(tmp_path) == ["slots.json"]  # noqa: PTH208 - names alone
