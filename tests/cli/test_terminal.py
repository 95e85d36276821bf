import re
from collections.abc import Iterator

import pytest
from rich.cells import cell_len

from tests.cli.canned import APPLICATION, Canned, job_view, server_view, vc_use
from tests.cli.terminal import run_in_terminal
from tests.cli.test_listings import FORBIDDEN, HOSTILE, READS

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    canned = Canned(
        jobs=[job_view("日本" * 40 + HOSTILE), job_view("plain", job_id="application_1764450000000_0002")],
        servers=[server_view(HOSTILE), server_view()],
        vcs=[vc_use(HOSTILE), vc_use()],
        cluster_id=HOSTILE,
    )
    canned.jobs[0].job.job_id = APPLICATION
    with canned.serve() as served:
        yield served


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_a_terminal_of_eighty_columns_shows_text_and_colours_only(address: str, command: tuple[str, ...]) -> None:
    ended = run_in_terminal(*command, environment={"YGS_SERVICE": address})
    assert ended.exit_code == 0, ended.shown
    without_colours = COLOUR.sub("", ended.shown)
    assert FORBIDDEN.findall(without_colours) == []
    if command[0] != "why":
        assert max(map(cell_len, without_colours.splitlines())) <= 80


def test_colours_are_shown_on_a_terminal_and_can_be_switched_off(address: str) -> None:
    assert COLOUR.search(run_in_terminal("jobs", environment={"YGS_SERVICE": address}).shown)
    shown = run_in_terminal("jobs", environment={"YGS_SERVICE": address, "NO_COLOR": "1", "TERM": "dumb"}).shown
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", shown)


def test_a_terminal_without_unicode_gets_codes_instead_of_an_error(address: str) -> None:
    ended = run_in_terminal("jobs", environment={"YGS_SERVICE": address, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert ended.exit_code == 0, ended.shown
    assert r"\u65e5" in ended.shown


def test_exit_codes_reach_the_shell(address: str) -> None:
    assert run_in_terminal("why", "nobody", environment={"YGS_SERVICE": address}).exit_code == 3
    assert run_in_terminal("jobs", environment={"YGS_SERVICE": "127.0.0.1:1"}).exit_code == 4
    assert run_in_terminal("jobs", "--nonsense").exit_code == 2
    assert run_in_terminal("--version").exit_code == 0
