"""The supervisor with real processes, small ones instead of Hadoop's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.embedded.conftest import OfFolder
from tests.embedded.waiting import until
from yarn_gpu_sched.embedded import supervisor as supervisor_module
from yarn_gpu_sched.embedded.control import Control, SupervisorId, start_supervisor
from yarn_gpu_sched.embedded.errors import ClusterError
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.ports import lease_ports
from yarn_gpu_sched.embedded.status import daemon_statuses

SLEEP = ["/bin/sleep", "1000"]
# A process that leaves its session and its parent, as a container's leftovers may.
STRAY = "(setsid sleep 1000 &); sleep 1000"


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    layout = Layout(tmp_path / "c")
    layout.make()
    leased = lease_ports()
    with leased.lease:
        supervisor, guard = start_supervisor(layout, f"mark-{tmp_path}", leased.lease)
    running = Control(layout, supervisor)
    yield running
    running.end()
    os.close(guard)


def start(control: Control, name: str, argv: list[str]) -> int:
    return control.start(name, argv, {"FOLDER": str(control.layout.root)})


def ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_end_leaves_nothing_of_the_folder(control: Control, of_folder: OfFolder) -> None:
    start(control, "a", SLEEP)
    start(control, "b", ["/bin/bash", "-c", STRAY])
    until(lambda: len(of_folder(control.layout.root)) >= 4, "supervisor, sleep, bash and stray run")
    assert control.end() >= 3
    assert of_folder(control.layout.root) == []
    assert not control.supervisor.running


def test_what_runs_is_counted_and_afterwards_nothing_answers(control: Control) -> None:
    start(control, "a", SLEEP)
    start(control, "b", SLEEP)
    assert control.living() == 2, "the supervisor itself does not count"
    assert control.end() == 2
    assert control.living() == 0
    with pytest.raises(ClusterError, match=rf"the cluster in {control.layout.root} does not run \("):
        control.processes()


def test_end_reaches_processes_that_ignore_signals_and_dropped_their_environment(control: Control) -> None:
    stubborn = "trap '' TERM INT HUP; env -i /bin/sleep 999 & echo $! >child; while :; do sleep 1; done"
    start(control, "a", ["/bin/bash", "-c", stubborn])
    child = control.layout / "tmp" / "child"
    until(lambda: child.exists() and child.read_text() != "", "the child tells its id")
    control.end()
    assert ended(int(child.read_text()))


def test_end_twice_is_harmless(control: Control) -> None:
    start(control, "a", SLEEP)
    assert control.end() == 1
    assert control.end() == 0


def test_killed_process_is_gone_and_starts_again(control: Control) -> None:
    first = start(control, "a", SLEEP)
    control.signal("a", signal.SIGKILL)
    assert ended(first)
    assert control.processes()["a"]["exit_code"] == -signal.SIGKILL
    second = control.restart("a")
    assert second != first
    assert control.processes()["a"] | {"started_at_s": 0} == {"pid": second, "started_at_s": 0, "exit_code": None}


def test_stopped_process_goes_on(control: Control) -> None:
    pid = start(control, "a", SLEEP)
    control.signal("a", signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it stops")
    control.signal("a", signal.SIGCONT)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_SLEEPING, "it goes on")


def test_exit_codes_and_output_are_kept(control: Control) -> None:
    start(control, "a", ["/bin/bash", "-c", "echo said; echo warned >&2; exit 7"])
    until(lambda: control.processes()["a"]["exit_code"] is not None, "it ends")
    assert control.processes()["a"]["exit_code"] == 7
    assert control.layout.log("a").read_text() == "said\nwarned\n"


def test_processes_get_the_environment_given_and_no_other(control: Control) -> None:
    control.start("a", ["/usr/bin/env"], {"X": "1"})
    until(lambda: control.processes()["a"]["exit_code"] is not None, "it ends")
    assert sorted(control.layout.log("a").read_text().splitlines()) == [
        "X=1",
        f"YGS_EMBEDDED_CLUSTER={control.supervisor.mark}",
    ]


def test_program_that_is_not_there_says_so_in_its_log(control: Control) -> None:
    start(control, "a", ["/no/such/program"])
    until(lambda: control.processes()["a"]["exit_code"] is not None, "it ends")
    assert control.processes()["a"]["exit_code"] == 127
    assert "cannot start /no/such/program" in control.layout.log("a").read_text()


def test_wrong_requests_are_refused_and_the_next_is_served(control: Control) -> None:
    start(control, "a", SLEEP)
    for do, arguments, says in (
        ("dance", {}, "do 'dance' should be one of start, signal, status, detach, end"),
        ("start", {"name": "a"}, "a is running"),
        ("start", {"name": "b"}, "b was never started"),
        ("start", {}, "KeyError"),
        ("signal", {"name": "b", "signal": 9}, "b is not running"),
        ("signal", {"name": "a", "signal": 999}, "ValueError"),
    ):
        with pytest.raises(ClusterError, match=says):
            control.ask(do, **arguments)
    assert control.processes()["a"]["exit_code"] is None


@pytest.mark.parametrize("nonsense", [b"", b"\n", b"[]\n", b"{\n", b"\xff\xfe\n", b"x" * 100_000])
def test_nonsense_on_the_socket_does_no_harm(control: Control, nonsense: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.relpath(control.layout / "control"))
        connection.sendall(nonsense)
    assert control.processes() == {}


def test_control_socket_is_for_this_user_alone(control: Control) -> None:
    assert control.layout.root.stat().st_mode & 0o077 == 0


def test_folder_with_a_long_name_works(tmp_path: Path) -> None:
    layout = Layout(tmp_path / ("long" * 25) / ("long" * 25))
    layout.make()
    leased = lease_ports()
    with leased.lease:
        supervisor, guard = start_supervisor(layout, "mark-long", leased.lease)
    assert Control(layout, supervisor).end() == 0
    os.close(guard)


def test_supervisor_killed_takes_the_daemons_along_and_the_rest_is_found(control: Control, of_folder: OfFolder) -> None:
    daemon = start(control, "a", SLEEP)
    start(control, "b", ["/bin/bash", "-c", STRAY])
    until(lambda: len(of_folder(control.layout.root)) >= 4, "all run")
    os.kill(control.supervisor.pid, signal.SIGKILL)
    until(lambda: ended(daemon), "the daemon dies with its supervisor")
    until(lambda: not control.supervisor.running, "the supervisor is gone")
    until(lambda: len(of_folder(control.layout.root)) == 1, "the stray alone is left")
    assert control.end() == 1
    assert of_folder(control.layout.root) == []


def test_what_is_started_while_the_rest_is_ended_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"mark-of-a-sweep-{os.getpid()}"
    environment = os.environ | {supervisor_module.MARK: mark}
    started = [subprocess.Popen(SLEEP, env=environment)]
    kill = supervisor_module._kill

    def start_another_and_kill(process: psutil.Process) -> None:
        if len(started) < 3:
            started.append(subprocess.Popen(SLEEP, env=environment))
        kill(process)

    monkeypatch.setattr(supervisor_module, "_kill", start_another_and_kill)
    assert supervisor_module.sweep(mark) == 3
    assert supervisor_module.marked(mark) == []
    for process in started:
        process.wait(timeout=10)


def test_process_that_got_the_supervisors_id_later_is_left_alone(control: Control) -> None:
    with subprocess.Popen(SLEEP) as other:
        ours = control.supervisor
        # A tick is a hundredth of a second: the two may have started within one.
        reused = SupervisorId(other.pid, ours.started_ticks - 1, ours.boot_id, "mark-of-a-cluster-long-gone")
        try:
            assert Control(control.layout, reused).end() == 0
            assert other.poll() is None
        finally:
            other.kill()


STARTER = """
import os, sys, time
from pathlib import Path
from yarn_gpu_sched.embedded.control import Control, start_supervisor
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.ports import lease_ports
from yarn_gpu_sched.embedded.status import daemon_statuses

layout = Layout(Path(sys.argv[1]))
layout.make()
supervisor, guard = start_supervisor(layout, f"mark-{layout.root}", lease_ports().lease)
control = Control(layout, supervisor)
control.start("a", ["/bin/sleep", "1000"], {})
control.start("b", ["/bin/bash", "-c", "(setsid sleep 1000 &); sleep 1000"], {})
if sys.argv[2] == "detach":
    control.ask("detach")
print(supervisor.pid, supervisor.started_ticks, supervisor.boot_id, supervisor.mark, flush=True)
time.sleep(1000)
"""


def starter(folder: Path, mode: str) -> tuple[subprocess.Popen[str], Control]:
    process = subprocess.Popen([sys.executable, "-c", STARTER, str(folder), mode], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid, ticks, boot_id, mark = process.stdout.readline().split()
    return process, Control(Layout(folder), SupervisorId(int(pid), int(ticks), boot_id, mark))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_everything_ends_with_its_starter(tmp_path: Path, of_folder: OfFolder, number: signal.Signals) -> None:
    process, control = starter(tmp_path / "c", "guard")
    with process:
        until(lambda: len(of_folder(tmp_path)) >= 5, "starter, supervisor and the rest run")
        process.send_signal(number)
    until(lambda: of_folder(tmp_path) == [] and not control.supervisor.running, "all ends")


def test_detached_cluster_outlives_its_starter_until_it_is_ended(tmp_path: Path, of_folder: OfFolder) -> None:
    process, control = starter(tmp_path / "c", "detach")
    with process:
        process.kill()
    until(lambda: len(of_folder(tmp_path)) >= 4, "supervisor and the rest run without the starter")
    time.sleep(0.2)  # not for something to happen: for nothing to
    assert control.processes()["a"]["exit_code"] is None
    control.end()
    assert of_folder(tmp_path) == []


def test_processes_are_told_as_daemons_but_for_what_only_formats(control: Control) -> None:
    pid = start(control, "rm", SLEEP)
    start(control, "nm", ["/bin/sh", "-c", "exit 3"])
    start(control, "format", SLEEP)
    until(lambda: control.processes()["nm"]["exit_code"] == 3, "one has ended")
    told = {one.name: one for one in daemon_statuses(control)}
    assert sorted(told) == ["nm", "rm"]
    assert (told["rm"].pid, told["rm"].running, told["nm"].exit_code) == (pid, True, 3)
    assert abs(told["rm"].started_at_s - time.time()) < 600
    control.end()
    assert daemon_statuses(control) == ()
