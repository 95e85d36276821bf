"""What is said of reservations in a terminal of 80 columns, by the product's own service."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from rich.cells import cell_len

from tests.cli.terminal import run_in_terminal
from tests.cli.test_listings import FORBIDDEN
from tests.cli.test_with_service import COLOUR, WAIT_S
from tests.client.real_service import real_service
from tests.client.scripted import await_condition
from yarn_gpu_sched.client import Client, FakeResourceManager
from yarn_gpu_sched.protocol.v1 import reason_pb2

RUNS, OWNS, WAITS = (f"application_1764450000000_000{number}" for number in (1, 2, 3))
PLACE = "gpu-a1:45454"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Let a job hold two of four GPUs, a gang have the two others kept, and a job wait for those."""
    folder = tmp_path_factory.mktemp("service")
    with (
        real_service(folder, "--reserve-after-s", "1", "--preemption", "off") as address,
        FakeResourceManager(address) as rm,
        Client(address) as client,
    ):
        rm.add_virtual_cluster("root.research", quota_gpus=16)
        rm.add_server("gpu-a1")
        for job_id, gpus in ((RUNS, 2), (OWNS, 4)):
            rm.submit(job_id, vc="root.research", tags=["gang:1", "runtime:6000"], name=job_id)
            rm.ask(job_id, 1, gpus=gpus)
        await_condition(lambda: len(client.cluster().reservations) == 1)
        rm.submit(WAITS, vc="root.research", tags=["gang:1"], name="later")
        rm.ask(WAITS, 1, gpus=2)
        reserved = reason_pb2.WAITING_REASON_CODE_RESERVED
        assert any(view.waiting.code == reserved for view in client.watch(WAITS, for_s=WAIT_S))
        yield address


def show(address: str, *arguments: str) -> list[str]:
    ended = run_in_terminal(*arguments, "--service", address)
    assert ended.exit_code == 0, ended.shown
    shown = COLOUR.sub("", ended.shown)
    assert FORBIDDEN.findall(shown) == []
    return shown.splitlines()


def said(address: str, *arguments: str) -> str:
    """Give what is shown as one line; it fits the terminal."""
    lines = show(address, *arguments)
    assert max(map(cell_len, lines)) <= 80
    return re.sub(r"\s+", " ", " ".join(lines)).strip()


def read(address: str, *arguments: str) -> Any:  # noqa: ANN401 - whatever the document holds
    return json.loads("".join(show(address, *arguments, "--json")))


def test_servers_show_what_is_kept_and_for_whom(address: str) -> None:
    shown = said(address, "servers")
    assert f"{PLACE} /rack-a running 4/4 - 2/4 #1 " in shown
    assert re.search(
        f"waited too long: #1 {OWNS} of root.research: 2 of its 4 GPUs, since [0-9ms]+; 2 of 4 on {PLACE}; "
        f"the rest when {RUNS} ends, expected in 1h[0-9]+m fake: 1 servers, 4 of 4 GPUs in use, 2 of them kept,",
        shown,
    )


def test_the_document_says_the_same(address: str) -> None:
    document = read(address, "servers")
    (one,) = document["reservations"]
    assert (one["job_id"], one["gpus"], one["kept_gpus"], one["awaited_job_ids"]) == (OWNS, 4, 2, [RUNS])
    assert one["servers"] == [{"server_id": PLACE, "gpus": 4, "kept_gpus": 2}]
    gpus = document["servers"][0]["gpus"]
    assert [gpu["job_id"] for gpu in gpus if gpu["container_id"] is None] == [OWNS, OWNS]


def test_why_of_who_has_it(address: str) -> None:
    shown = said(address, "why", OWNS)
    kept = f"{OWNS} waits: asks 4 GPUs; it waited too long, so 2 of 4 GPUs are kept for it on {PLACE}, the rest when {RUNS} ends "
    assert shown.startswith(kept)
    assert f"- the end of {RUNS}, where places are kept for it, or room anywhere before when: in " in shown
    assert shown.endswith(", if all who hold the rest end when they say")
    document = read(address, "why", OWNS)
    assert (document["waiting"]["code"], document["outlook"]["job_ids"]) == ("reserved", [RUNS])
    assert 4_000 < document["outlook"]["starts_in_s"] <= 6_000
    assert f"waits {kept.partition('waits: ')[2]}" in said(address, "job", "show", OWNS)


def test_why_of_who_waits_for_it(address: str) -> None:
    shown = said(address, "why", WAITS)
    assert shown.startswith(
        f"{WAITS} waits: asks 2 GPUs; 0 GPUs are free on 0 servers, 2 are reserved for {OWNS}, which waited too long "
    )
    passing = f"(tag runtime:SECONDS): it would end before {OWNS} needs the 2 GPUs that are kept for it"
    assert re.search(rf"- a run time of at most [45]\d\d\d s {re.escape(passing)}", shown)
    assert shown.endswith("neither jobs before it in order nor those with a reservation are counted")


def test_jobs_show_what_is_kept_as_held(address: str) -> None:
    rows = [line.split()[:5] for line in show(address, "jobs")[1:]]
    assert [(row[0], row[2], row[4]) for row in rows] == [
        (RUNS, "2", "-"),
        (OWNS, "2+4", "reserved"),
        (WAITS, "0+2", "reserved"),
    ]
