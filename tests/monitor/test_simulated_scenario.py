"""What simulated servers are made of: the words for cards, the scenario file, and when it began."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from yarn_gpu_sched.monitor.simulated.models import MODELS
from yarn_gpu_sched.monitor.simulated.scenario import EVENTS_MAX, FILE_BYTES_MAX, BadScenario, Scenario, XidError, load
from yarn_gpu_sched.monitor.simulated.server import SimulatedServer
from yarn_gpu_sched.monitor.simulated.spec import BadSpec, parse
from yarn_gpu_sched.monitor.simulated.state import application_of


def test_words_name_cards() -> None:
    cards = parse("1xP400+4xv100", "s1")
    assert [card.model.name for card in cards] == ["Quadro P400", *["Tesla V100-SXM2-32GB"] * 4]
    assert [card.number for card in cards] == [card.minor for card in cards] == [0, 1, 2, 3, 4]
    assert len({card.pci_bus_id for card in parse("64xT4")}) == 64
    assert len(parse("T4")) == 1
    assert parse("0") == ()


def test_uuid_is_the_same_for_the_same_card_of_a_host_and_no_other() -> None:
    assert parse("4xV100", "S1") == parse("4xV100", "s1")
    uuids = [card.uuid for host in ("s1", "s2") for card in parse("4xV100", host)]
    assert len(set(uuids)) == 8


@pytest.mark.parametrize("model", MODELS)
def test_every_model_can_be_named(model: str) -> None:
    assert parse(f"8x{model}")[7].model == MODELS[model]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("", "4xV100"),
        ("4xVoodoo", "4xV100"),
        ("4V100", "4xV100"),
        ("-1xV100", "4xV100"),
        ("0xV100", "1 to 64"),
        ("65xV100", "1 to 64"),
        ("33xV100+32xT4", "at most 64"),
        ("4xV100+", "4xV100"),
        ("9999999xV100", "4xV100"),
    ],
)
def test_other_words_are_refused_with_what_would_be_right(text: str, right: str) -> None:
    with pytest.raises(BadSpec, match=right) as caught:
        parse(text)
    assert repr(text) in str(caught.value)


def written(folder: Path, content: object, name: str = "scenario.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    toml = '[[events]]\nat_s = 30\nwhat = "xid"\ngpu = 2\nxid = 79\n'
    expected = Scenario(events=(XidError(at_s=30, gpu=2, xid=79),))
    assert load(written(tmp_path, toml, "a.toml"), 4) == expected
    assert load(written(tmp_path, {"events": [{"at_s": 30, "what": "xid", "gpu": 2, "xid": 79}]}), 4) == expected


def test_events_are_put_in_order_of_time(tmp_path: Path) -> None:
    events = [{"at_s": at_s, "what": "xid", "gpu": 0, "xid": at_s} for at_s in (30, 10, 20)]
    assert [event.at_s for event in load(written(tmp_path, {"events": events}), 1).events] == [10, 20, 30]


@pytest.mark.parametrize(
    ("event", "parts"),
    [
        ({"what": "xid", "gpu": 4, "xid": 79}, ["events[0].gpu", "4", "right would be 0 to 3"]),
        ({"what": "xid", "gpu": 0, "xid": "79"}, ["events[0].xid", "'79'", "int"]),
        ({"what": "xid", "gpu": 0}, ["events[0]", "xid"]),
        ({"what": "exid", "gpu": 0}, ["events[0].what", "'exid'", "right would be one of ecc, hang"]),
        ({"gpu": 0}, ["events[0]", "what", "right would be one of ecc, hang"]),
        ({"what": "hang", "gpus": 0}, ["events[0]", "gpus", "right would be what, at_s, until_s"]),
        ({"what": "hang", "at_s": -1}, ["events[0].at_s", "-1", ">= 0"]),
        ({"what": "hang", "until_s": 5}, ["events[0]", "until_s 5.0 must be greater than at_s 10.0"]),
        ({"what": "use", "gpu": 0, "job": "a"}, ["events[0]", "exactly one of gpu, job and container"]),
        ({"what": "use", "gpu": 0, "sm_percent": 101}, ["events[0].sm_percent", "101", "<= 100"]),
        ({"what": "missing", "gpu": 0, "fields": ["sm"]}, ["events[0].fields[0]", "'sm'", "sm_percent"]),
        ({"what": "impossible", "gpu": 0, "values": {"sm": 1}}, ["events[0].values", "'sm'", "sm_percent"]),
        ({"what": "throttle", "gpu": 0, "reasons": ["heat"]}, ["events[0].reasons[0]", "'heat'", "hw_slowdown"]),
    ],
)
def test_wrong_event_is_refused_with_file_place_value_and_what_is_right(
    tmp_path: Path, event: dict[str, object], parts: list[str]
) -> None:
    path = written(tmp_path, {"events": [{"at_s": 10, **event}]})
    with pytest.raises(BadScenario) as caught:
        load(path, 4)
    for part in [str(path), *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("[[events]", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("\udcff", "is no JSON"),
        ([], "the file: Expected `object`"),
        ({"minors": [0, 1, 2]}, "right would be 4 different numbers"),
        ({"minors": [0, 1, 2, 2]}, "right would be 4 different numbers"),
        (" " * (FILE_BYTES_MAX + 1), "is larger than"),
        ({"events": [{"at_s": 1, "what": "hang"}] * (EVENTS_MAX + 1)}, f"<= {EVENTS_MAX}"),
    ],
)
def test_wrong_file_is_refused(tmp_path: Path, content: object, part: str) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes((content if isinstance(content, str) else json.dumps(content)).encode(errors="surrogateescape"))
    with pytest.raises(BadScenario, match=r"scenario\.json") as caught:
        load(path, 4)
    assert part in str(caught.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match="cannot be read: No such file"):
        SimulatedServer(parse("1xT4"), tmp_path / "none.toml")


def test_all_who_look_agree_when_a_scenario_began(tmp_path: Path) -> None:
    path, now_s = written(tmp_path, {}), 1000.0
    first = SimulatedServer(parse("1xT4"), path, tmp_path / "state", clock=lambda: now_s)
    now_s = 1500.0
    second = SimulatedServer(parse("1xT4"), path, tmp_path / "state", clock=lambda: now_s)
    assert (first.seconds, second.seconds) == (500, 500)


def test_who_may_not_write_when_a_scenario_began_goes_by_what_is_written(tmp_path: Path) -> None:
    path, now_s = written(tmp_path, {}), 1000.0
    not_a_folder = tmp_path / "state"
    not_a_folder.touch()
    server = SimulatedServer(parse("1xT4"), path, not_a_folder, clock=lambda: now_s)
    now_s = 1100.0
    assert server.seconds == 100


def test_of_two_who_see_a_scenario_first_one_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, now_s = written(tmp_path, {}), 1000.0
    others: list[SimulatedServer] = []
    link = Path.hardlink_to

    def late(file: Path, draft: Path) -> None:
        nonlocal now_s
        if not others:
            now_s = 1001.0
            monkeypatch.undo()
            others.append(SimulatedServer(parse("1xT4"), path, tmp_path / "state", clock=lambda: now_s))
        link(file, draft)

    monkeypatch.setattr(Path, "hardlink_to", late)
    server = SimulatedServer(parse("1xT4"), path, tmp_path / "state", clock=lambda: now_s)
    assert (server.began_s, others[0].began_s) == (1001, 1001)
    assert len(list((tmp_path / "state").iterdir())) == 1


def test_scenario_that_changes_begins_anew_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path, now_s = written(tmp_path, {}), 1000.0
    server = SimulatedServer(parse("1xT4"), path, tmp_path / "state", clock=lambda: now_s)
    now_s = 1500.0
    written(tmp_path, {"events": [{"at_s": 5, "what": "ecc", "gpu": 0, "corrected": 7}]})
    assert server.look().gpus[0].ecc_corrected == 0
    now_s = 1506.0
    assert server.look().gpus[0].ecc_corrected == 7
    written(tmp_path, "{")
    now_s = 1507.0
    assert server.look().gpus[0].ecc_corrected == 7
    assert "is no JSON" in server.wrong
    assert len(list((tmp_path / "state").iterdir())) == 1


def test_same_scenario_written_again_begins_anew(tmp_path: Path) -> None:
    path, now_s = written(tmp_path, {}), 1000.0
    server = SimulatedServer(parse("1xT4"), path, tmp_path / "state", clock=lambda: now_s)
    now_s = 1500.0
    os.utime(path, ns=(0, 0))
    server.look()
    assert server.seconds == 0


@pytest.mark.parametrize(
    ("container_id", "application_id"),
    [
        ("container_e17_1410901177871_0001_01_000005", "application_1410901177871_0001"),
        ("container_1410901177871_0001_01_000005", "application_1410901177871_0001"),
        ("container", ""),
        ("", ""),
    ],
)
def test_application_of_a_container(container_id: str, application_id: str) -> None:
    assert application_of(container_id) == application_id
