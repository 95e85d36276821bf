"""Orders become binding files: named by UUID or place, looked at before, kept over kills."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.monitor.server import gpu, gpus, process, uuid
from yarn_gpu_sched.binding import Refusal, UnfitDirectory, parse
from yarn_gpu_sched.monitor import bindings as bindings_module
from yarn_gpu_sched.monitor.bindings import Bindings, Rules, variables
from yarn_gpu_sched.monitor.delta import Look
from yarn_gpu_sched.monitor.reading import Failure, FailureKind, GpusReading
from yarn_gpu_sched.monitor.slots import Slots
from yarn_gpu_sched.protocol.v1 import monitor_pb2 as pb


def name(number: int) -> str:
    return f"container_1700000000000_0001_01_{number:06d}"


def bound(number: int, *slots: int, **more: object) -> pb.Binding:
    return pb.Binding(container_id=name(number), job_id="application_1700000000000_0001", slots=slots, **more)  # type: ignore[arg-type] # other fields of the message


class Room:
    """A server with four GPUs, and its binding directory; ``monitor`` makes a new monitor, as after a kill."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.slots = Slots(None)
        self.slots.place(gpus(4))
        self.refused: list[pb.BindingRefusal] = []
        self.looks = 0
        self.failure: Failure | None = None
        self.at_look: Callable[[int], None] = lambda _: None
        self.all: list[Bindings] = []

    def monitor(self, names: str = "uuid") -> Bindings:
        rules = Rules("index" if names == "index" else "uuid", 1_024)
        made = Bindings(self.directory, self.slots, rules, self.fresh, self.refused.append)
        self.all.append(made)
        return made

    async def fresh(self) -> Look:
        self.looks += 1
        self.at_look(self.looks)
        found = None if self.failure else tuple(self.slots.now.values())
        return Look(0.0, GpusReading(gpus=found, failure=self.failure))

    def change(self, place: int, **fields: Any) -> None:  # noqa: ANN401 - whatever a reading has
        found = list(self.slots.now.values())
        found[place] = gpu(place, **fields)
        self.slots.place(found)

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.directory.iterdir() if not path.name.startswith("~")}


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    made = Room(tmp_path / "bindings")
    yield made
    for each in made.all:
        each.close()


def all_(*named: pb.Binding) -> pb.ReportResponse:
    return pb.ReportResponse(sequence=1, all=True, bindings=named)


def order(*named: pb.Binding, gone: tuple[int, ...] = ()) -> pb.ReportResponse:
    return pb.ReportResponse(sequence=2, bindings=named, gone_container_ids=map(name, gone))


async def test_slots_become_uuids_and_the_rest_variables(room: Room) -> None:
    monitor = room.monitor()
    await monitor.carry_out(all_(bound(1, 0, 3, rank=1, world_size=2, hosts=["a", "b"], domain="/rack1")))
    assert room.files() == {
        name(1): f"{uuid(0)},{uuid(3)}\nYGS_JOB_ID=application_1700000000000_0001\nYGS_DOMAIN=/rack1\n"
        "YGS_RANK=1\nYGS_WORLD_SIZE=2\nYGS_HOSTS=a,b\n"
    }


async def test_slots_become_places_where_that_is_set(room: Room) -> None:
    room.slots.place([gpu(0, 0), gpu(2, 1), gpu(3, 2)])
    await room.monitor("index").carry_out(all_(bound(1, 0, 3)))
    assert room.files()[name(1)].startswith("0,2\n")


async def test_places_are_written_anew_when_nvidia_smi_counts_anew(room: Room) -> None:
    monitor = room.monitor("index")
    await monitor.carry_out(all_(bound(1, 0, 3), bound(2, 1)))
    room.slots.place([gpu(0, 0), gpu(2, 1), gpu(3, 2)])
    await monitor.renumber()
    assert room.files()[name(1)].startswith("0,2\n")
    assert room.files()[name(2)].startswith("1\n"), "its own card has vanished: what was written stays"


async def test_a_container_without_gpus_is_told_so_at_once(room: Room) -> None:
    await room.monitor().carry_out(all_(bound(1)))
    assert room.files()[name(1)].startswith("\n")
    assert room.looks == 0


async def test_a_rank_that_is_known_later_is_written_without_another_look(room: Room) -> None:
    monitor = room.monitor()
    await monitor.carry_out(all_(bound(1, 0)))
    room.change(0, processes=(process(5, name(1)),), memory_used_mb=20_000)
    looks = room.looks
    await monitor.carry_out(order(bound(1, 0, rank=0, world_size=1, hosts=["a"])))
    assert "YGS_RANK=0\n" in room.files()[name(1)]
    assert room.looks == looks


async def test_who_is_gone_has_no_file_any_more(room: Room) -> None:
    monitor = room.monitor()
    await monitor.carry_out(all_(bound(1, 0), bound(2, 1)))
    await monitor.carry_out(order(gone=(1,)))
    assert set(room.files()) == set(monitor.wanted) == {name(2)}


async def test_a_list_of_all_forgets_others_also_those_of_a_monitor_before(room: Room) -> None:
    await room.monitor().carry_out(all_(bound(1, 0), bound(2, 1)))
    again = room.monitor()
    assert set(room.files()) == {name(1), name(2)}
    await again.carry_out(all_(bound(2, 1)))
    assert set(room.files()) == {name(2)}
    await again.carry_out(all_(bound(3, 0)))
    assert set(room.files()) == set(again.wanted) == {name(3)}


async def test_after_a_restart_what_runs_is_not_looked_at_again(room: Room) -> None:
    await room.monitor().carry_out(all_(bound(1, 0)))
    before = room.files()
    room.change(0, memory_used_mb=30_000, processes=(process(99),))
    again = room.monitor()
    looks = room.looks
    await again.carry_out(all_(bound(1, 0)))
    assert room.files() == before
    assert room.looks == looks
    assert not room.refused


async def test_a_gpu_that_is_not_free_at_two_looks_is_refused_and_told(room: Room) -> None:
    room.change(1, processes=(process(99),))
    monitor = room.monitor()
    await monitor.carry_out(all_(bound(1, 0, 1), bound(2, 2)))
    assert room.looks == 2
    assert room.files()[name(1)] == "!GPU 1: held by process 99 (python) of ada, no container\n"
    assert isinstance(parse(room.files()[name(1)]), Refusal)
    assert room.files()[name(2)].startswith(uuid(2)), "others are not held up"
    (refusal,) = room.refused
    assert (refusal.container_id, list(refusal.slots)) == (name(1), [1])
    assert refusal.detail == "GPU 1: held by process 99 (python) of ada, no container"


async def test_a_gpu_that_is_let_go_in_between_is_given(room: Room) -> None:
    room.change(1, memory_used_mb=2_000)
    room.at_look = lambda number: room.change(1) if number == 2 else None
    await room.monitor().carry_out(all_(bound(1, 1)))
    assert room.files()[name(1)].startswith(uuid(1))
    assert not room.refused


async def test_a_refused_container_stays_refused_and_is_told_again_by_the_next_monitor_only(room: Room) -> None:
    room.change(1, processes=(process(99),))
    monitor = room.monitor()
    await monitor.carry_out(all_(bound(1, 1)))
    room.change(1)
    await monitor.carry_out(order(bound(1, 1, rank=0, world_size=1)))
    assert len(room.refused) == 1
    await room.monitor().carry_out(all_(bound(1, 1)))
    assert room.files()[name(1)].startswith("!GPU 1")
    assert [each.detail for each in room.refused] == [room.refused[0].detail] * 2


async def test_gpus_that_cannot_be_read_accuse_nobody(room: Room) -> None:
    room.change(1, processes=(process(99),))
    room.failure = Failure(FailureKind.TIMED_OUT)
    await room.monitor().carry_out(all_(bound(1, 1)))
    assert room.files()[name(1)].startswith(uuid(1))


async def test_what_may_run_already_is_not_accused_by_memory_of_unknown_owners(room: Room) -> None:
    room.change(1, processes=None, memory_used_mb=9_000)
    monitor = room.monitor()
    await monitor.carry_out(all_(bound(1, 1)))
    assert room.files()[name(1)].startswith(uuid(1))
    await monitor.carry_out(order(bound(2, 1)))
    assert room.files()[name(2)].startswith("!GPU 1: 9000 MiB in use")


async def test_what_is_not_named_yet_stays_until_all_are_named(room: Room) -> None:
    await room.monitor().carry_out(all_(bound(1, 0), bound(2, 1)))
    again = room.monitor()
    await again.carry_out(pb.ReportResponse(sequence=1, bindings=[bound(1, 0)]))
    assert set(room.files()) == {name(1), name(2)}
    assert not again.told
    await again.carry_out(pb.ReportResponse(sequence=2, all=True, bindings=[bound(1, 0)]))
    assert set(room.files()) == {name(1)}
    assert again.told


async def test_until_all_are_named_memory_of_unknown_owners_accuses_nobody(room: Room) -> None:
    room.change(1, processes=None, memory_used_mb=9_000)
    monitor = room.monitor()
    await monitor.carry_out(pb.ReportResponse(sequence=1, bindings=[bound(1, 1)]))
    await monitor.carry_out(pb.ReportResponse(sequence=2, bindings=[bound(2, 1)]))
    await monitor.carry_out(pb.ReportResponse(sequence=3, all=True, bindings=[bound(1, 1), bound(2, 1)]))
    assert not room.refused
    await monitor.carry_out(pb.ReportResponse(sequence=4, bindings=[bound(3, 1)]))
    assert [each.container_id for each in room.refused] == [name(3)]


@pytest.mark.parametrize(("names", "slot", "why"), [("uuid", 7, "no such card"), ("index", 1, "has vanished")])
async def test_a_slot_without_a_card_is_refused(room: Room, names: str, slot: int, why: str) -> None:
    room.slots.place([gpu(0, 0), gpu(2, 1), gpu(3, 2)])
    room.failure = Failure(FailureKind.TIMED_OUT)
    await room.monitor(names).carry_out(all_(bound(1, slot)))
    assert why in room.files()[name(1)]
    assert room.refused[0].slots == ([slot] if slot < 4 else []), "the service knows no others"


async def test_a_vanished_card_is_not_given_by_its_uuid_either(room: Room) -> None:
    room.slots.place([gpu(0, 0), gpu(2, 1), gpu(3, 2)])
    await room.monitor().carry_out(all_(bound(1, 1)))
    assert room.files()[name(1)] == "!GPU 1: its card has vanished\n"


async def test_what_does_not_fit_is_left_out_and_the_container_starts() -> None:
    each = bound(1, 0, rank=0, world_size=1, hosts=["h" * 30 + str(number) for number in range(3_000)], domain="a\nb")
    assert variables(each) == {
        "YGS_JOB_ID": "application_1700000000000_0001",
        "YGS_RANK": "0",
        "YGS_WORLD_SIZE": "1",
    }


async def test_a_container_id_that_is_no_file_name_is_counted_and_others_go_on(room: Room) -> None:
    monitor = room.monitor()
    bad = [pb.Binding(container_id=each, slots=[0]) for each in ("", ".", "..", "../x", "a/b", "x" * 201, "~new")]
    await monitor.carry_out(pb.ReportResponse(all=True, bindings=[*bad, bound(1, 0)], gone_container_ids=["../x"]))
    assert set(room.files()) == {name(1)}
    assert monitor.failures_total == 7


async def test_containers_are_bounded(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings_module, "CONTAINERS_MAX", 3)
    monitor = room.monitor()
    await monitor.carry_out(all_(*(bound(number) for number in range(5))))
    assert len(monitor.wanted) == len(room.files()) == 3
    assert monitor.failures_total == 2
    await monitor.carry_out(order(bound(4), gone=(0,)))
    assert name(4) in room.files()


async def test_a_file_that_cannot_be_written_is_counted_and_tried_again(room: Room) -> None:
    monitor = room.monitor()
    (room.directory / name(1)).mkdir()
    (room.directory / name(1) / "in the way").touch()
    await monitor.carry_out(all_(bound(1), bound(2)))
    assert monitor.failures_total == 1
    (room.directory / name(1) / "in the way").unlink()
    (room.directory / name(1)).rmdir()
    await monitor.retry()
    assert set(room.files()) == {name(1), name(2)}


async def test_a_broken_file_is_written_anew(room: Room) -> None:
    room.monitor()
    (room.directory / name(1)).write_bytes(b"\xff")
    await room.monitor().carry_out(all_(bound(1, 0)))
    assert room.files()[name(1)].startswith(uuid(0))


async def test_without_a_directory_containers_are_known_all_the_same(tmp_path: Path) -> None:
    room = Room(tmp_path)
    monitor = Bindings(None, room.slots, Rules("uuid", 0), room.fresh, room.refused.append)
    await monitor.carry_out(all_(bound(1, 0, 2)))
    assert monitor.held == {name(1): frozenset({0, 2})}
    await monitor.retry()
    monitor.close()


async def test_somebody_elses_directory_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(UnfitDirectory):
        Room(tmp_path).monitor()


async def test_a_container_that_runs_keeps_its_file_when_its_card_vanishes(room: Room) -> None:
    monitor = room.monitor("index")
    await monitor.carry_out(all_(bound(1, 1)))
    before = room.files()
    room.slots.place([gpu(0, 0), gpu(2, 1), gpu(3, 2)])
    await monitor.carry_out(order(bound(1, 1, rank=0, world_size=1)))
    assert room.files() == before
    assert not room.refused


async def test_one_that_went_while_its_gpus_were_looked_at_gets_no_file(room: Room) -> None:
    monitor = room.monitor()
    room.at_look = lambda _: monitor.wanted.clear()
    await monitor.carry_out(all_(bound(1, 1)))
    assert room.files() == {}
