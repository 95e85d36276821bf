"""Whose a process is: on a made-up /proc for what others run, on the real one for what we run."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import fuzzed
from yarn_gpu_sched.monitor.processes import ANCESTORS_MAX, COMMAND_LETTERS_MAX, describe

CONTAINER = "container_e01_1700000000000_0001_01_000002"
OTHER = "container_1700000000000_0007_02_000011"
V1 = "12:devices:/user.slice\n4:cpu,cpuacct:/hadoop-yarn/{}\n0::/init.scope\n"
V2 = "0::/hadoop-yarn/{}\n"


def make(
    root: Path,
    pid: int,
    *,
    parent: int = 1,
    name: str = "python",
    uid: object = 0,
    cgroup: str = "",
    environ: bytes = b"",
) -> Path:
    folder = root / str(pid)
    folder.mkdir()
    (folder / "status").write_text(f"Name:\t{name}\nState:\tS\nPPid:\t{parent}\nUid:\t9\t{uid}\t9\t9\n")
    (folder / "cgroup").write_text(cgroup or "0::/user.slice\n")
    (folder / "environ").write_bytes(environ)
    return folder


@pytest.mark.parametrize(
    "groups",
    [
        V1,
        V2,
        "0::/docker/4f2a/hadoop-yarn/{}\n",
        "0::/hadoop-yarn/{}/docker-4f2a9c.scope\n",
        "0::/hadoop-yarn/{}/4f2a9c/inner\n",
        "4:cpu:/hadoop-yarn.slice/hadoop-yarn-{}.slice/docker-4f2a.scope\n",
        "0::/../../hadoop-yarn/{}\n",
        "0::/hadoop-yarn/container_e01_1700000000000_0009_01_000001/hadoop-yarn/{}\n",
    ],
)
@pytest.mark.parametrize("container", [CONTAINER, OTHER])
def test_container_is_read_from_the_control_group(tmp_path: Path, groups: str, container: str) -> None:
    make(tmp_path, 70, cgroup=groups.format(container), environ=b"CONTAINER_ID=container_1_1_1_1\0")
    assert describe(70, tmp_path)[0] == container


@pytest.mark.parametrize(
    "groups",
    [
        "0::/hadoop-yarn\n",
        "0::/my_container_1_2_3_4\n",
        "0::/container_1_2_3_4_5\n",
        "0::/container_x\n",
        "",
        "0::\n",
        "\0",
    ],
)
def test_other_control_groups_name_no_container(tmp_path: Path, groups: str) -> None:
    make(tmp_path, 70, cgroup=groups)
    assert describe(70, tmp_path)[0] == ""


def test_container_is_read_from_the_environment_where_no_control_group_names_it(tmp_path: Path) -> None:
    make(tmp_path, 70, environ=f"HOME=/\0CONTAINER_ID={CONTAINER}\0PATH=/bin\0".encode())
    make(tmp_path, 71, environ=f"MY_CONTAINER_ID={CONTAINER}\0NOTE=x CONTAINER_ID={CONTAINER}\0".encode())
    make(tmp_path, 72, environ=b"CONTAINER_ID=../../etc\0")
    make(tmp_path, 73, environ=f"CONTAINER_ID={CONTAINER}; rm\0".encode())
    assert [describe(pid, tmp_path)[0] for pid in (70, 71, 72, 73)] == [CONTAINER, "", "", ""]


def test_container_is_read_from_an_ancestor_where_the_process_hides_it(tmp_path: Path) -> None:
    make(tmp_path, 70, environ=f"CONTAINER_ID={CONTAINER}\0".encode())
    make(tmp_path, 71, parent=70, cgroup=V2.format(OTHER))
    make(tmp_path, 72, parent=71)
    make(tmp_path, 73, parent=72)
    make(tmp_path, 80, parent=70)
    assert describe(73, tmp_path)[0] == OTHER  # the nearest
    assert describe(80, tmp_path)[0] == CONTAINER


def test_walk_up_the_parents_ends(tmp_path: Path) -> None:
    make(tmp_path, 1, environ=f"CONTAINER_ID={OTHER}\0".encode())
    make(tmp_path, 2, parent=1)
    make(tmp_path, 3, parent=4)
    make(tmp_path, 4, parent=3)
    assert describe(2, tmp_path)[0] == ""  # process 1 adopts whoever is left
    assert describe(3, tmp_path)[0] == ""  # parents in a circle
    first = 1000
    make(tmp_path, first, environ=f"CONTAINER_ID={CONTAINER}\0".encode())
    for pid in range(first + 1, first + ANCESTORS_MAX + 2):
        make(tmp_path, pid, parent=pid - 1)
    assert describe(first + ANCESTORS_MAX, tmp_path)[0] == CONTAINER
    assert describe(first + ANCESTORS_MAX + 1, tmp_path)[0] == ""


def test_user_is_a_name_or_else_a_number(tmp_path: Path) -> None:
    unknown = next(uid for uid in range(3_000_000_000, 3_000_000_100) if not _known(uid))
    for pid, uid in ((70, 0), (71, unknown), (72, "x"), (73, 2**32), (74, "9" * 5000), (75, "")):
        make(tmp_path, pid, uid=uid)
    (tmp_path / "75" / "status").write_text("Name:\tpython\nUid:\t\n")
    users = [describe(pid, tmp_path)[1] for pid in range(70, 76)]
    assert users == [pwd.getpwuid(0).pw_name, str(unknown), "", "", "", ""]


def _known(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def test_command_is_cut_and_cleaned_of_control_characters(tmp_path: Path) -> None:
    make(tmp_path, 70, name="py\x1b[2Jthon\x07")
    make(tmp_path, 71, name="a" * 500)
    make(tmp_path, 72, name="nohtyp\u202ex")
    (make(tmp_path, 73) / "status").write_bytes(b"Name:\tpy\xff\xfe\nPPid:\t1\n")
    commands = [describe(pid, tmp_path)[2] for pid in range(70, 74)]
    assert commands == ["py?[2Jthon?", "a" * COMMAND_LETTERS_MAX, "nohtyp?x", "py\ufffd\ufffd"]


@pytest.mark.parametrize("pid", [0, -1, 5, 2**70, 6498025472])
def test_process_that_is_gone_gives_empty_strings(tmp_path: Path, pid: int) -> None:
    assert describe(pid, tmp_path) == ("", "", "")


def test_process_that_cannot_be_read_gives_empty_strings(tmp_path: Path) -> None:
    (tmp_path / "70").mkdir()
    (tmp_path / "71").write_text("no folder")
    for name in ("status", "cgroup", "environ"):
        (tmp_path / "70" / name).mkdir()
    assert describe(70, tmp_path) == ("", "", "")
    assert describe(71, tmp_path) == ("", "", "")


def test_pipe_in_the_place_of_a_file_does_not_hold_the_reader(tmp_path: Path) -> None:
    folder = make(tmp_path, 70)
    for name in ("status", "cgroup", "environ"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
    assert describe(70, tmp_path) == ("", "", "")


def test_reads_are_bounded(tmp_path: Path) -> None:
    folder = make(tmp_path, 70)
    for name in ("status", "cgroup", "environ"):
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")
    assert describe(70, tmp_path) == ("", "", "")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    environment = {"CONTAINER_ID": CONTAINER, "PATH": os.environ["PATH"]}
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=environment)
    yield started
    started.communicate(b"\n")


def test_real_process_is_described(child: subprocess.Popen[bytes]) -> None:
    container, user, command = describe(child.pid)
    assert (container, user) == (CONTAINER, pwd.getpwuid(os.geteuid()).pw_name)
    assert command.startswith("python")


def test_real_process_that_dropped_its_environment_is_of_its_parents_container() -> None:
    script = "sleep 60 & echo $!; wait"
    command = ["/bin/sh", "-c", f"env -i /bin/sh -c '{script}'; true"]
    environment = {"CONTAINER_ID": CONTAINER, "PATH": os.environ["PATH"]}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        try:
            assert describe(pid)[0] == CONTAINER
        finally:
            os.kill(pid, 9)


def test_real_process_that_has_ended_is_gone() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert describe(ended.pid) == ("", "", "")


PIECES = st.sampled_from(
    [
        b"Name:",
        b"PPid:\t",
        b"Uid:\t",
        b"70",
        b"71",
        b"0\t0\t0",
        b"\n",
        b"\0",
        b"CONTAINER_ID=",
        CONTAINER.encode(),
        b"/",
        b"::",
    ]
)
FILES = st.lists(st.one_of(PIECES, st.binary(max_size=20)), max_size=20).map(b"".join)


@fuzzed(150, 5_000)
@given(files=st.tuples(FILES, FILES, FILES), parent=st.tuples(FILES, FILES, FILES))
def test_whatever_the_files_hold_nothing_is_raised_and_nothing_invented(
    tmp_path: Path, files: tuple[bytes, ...], parent: tuple[bytes, ...]
) -> None:
    for pid, contents in ((70, files), (71, parent)):
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        for name, content in zip(("status", "cgroup", "environ"), contents, strict=True):
            (tmp_path / str(pid) / name).write_bytes(content)
    container, user, command = describe(70, tmp_path)
    assert container == "" or re.fullmatch(r"container_e01_[0-9]+_[0-9]+_[0-9]+_[0-9]+", container)
    assert container == "" or any(container.encode() in content for content in (*files, *parent))
    assert (user + command).isprintable()
    assert len(command) <= COMMAND_LETTERS_MAX
