"""What bind_gpus.sh makes of a binding file, under a real bash: the same as `yarn_gpu_sched.binding`, and never more."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.embedded.container_bash import CONTAINER, SHOW, deliver, run
from tests.fuzz import fuzzed
from yarn_gpu_sched.binding import Binding, Refusal, UnfitBinding, parse, render
from yarn_gpu_sched.embedded import BIND_SCRIPT, LAUNCH_SCRIPT

UUIDS = ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-b")
VALUES = {
    "YGS_JOB_ID": "application_1700000000000_0001",
    "YGS_RANK": "2",
    "YGS_WORLD_SIZE": "4",
    "YGS_HOSTS": "s1:2,s2:2",
    "YGS_DOMAIN": "/rack1",
}
UNSAFE = [
    "$(touch {0})",
    "`touch {0}`",
    "; touch {0}",
    "'; touch {0}; '",
    '"; touch {0}; "',
    "\\",
    "${{IFS}}",
    "a[$(touch {0})]",
    "*",
    "~",
    "!!",
]
STRICT = ("-euo", "pipefail")


def environment_of(folder: Path, *flags: str, **more: str) -> dict[str, str]:
    done = run(folder, "env -0", *flags, **more)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)


@pytest.mark.parametrize("gpus", [UUIDS, ("0", "3")])
def test_container_learns_its_gpus_and_its_place_in_the_job(tmp_path: Path, gpus: tuple[str, ...]) -> None:
    deliver(tmp_path, render(Binding(gpus, VALUES)))
    seen = environment_of(tmp_path, *STRICT)
    assert seen["CUDA_VISIBLE_DEVICES"] == seen["NVIDIA_VISIBLE_DEVICES"] == ",".join(gpus)
    assert seen["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert {name: seen[name] for name in VALUES} == VALUES
    assert "BASH_ENV" not in seen


def test_container_without_gpus_learns_its_place_too(tmp_path: Path) -> None:
    deliver(tmp_path, render(Binding((), VALUES)))
    seen = environment_of(tmp_path, *STRICT)
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["NVIDIA_VISIBLE_DEVICES"], seen["YGS_RANK"]) == ("", "void", "2")


def test_nested_torchrun_keeps_what_it_set(tmp_path: Path) -> None:
    deliver(tmp_path, render(Binding(("0", "1"), VALUES)))
    rank = f"CUDA_VISIBLE_DEVICES=1 YGS_RANK=3 BASH_ENV={BIND_SCRIPT} bash -c 'echo $CUDA_VISIBLE_DEVICES $YGS_RANK'"
    assert run(tmp_path, rank).stdout == "1 3\n"


def test_container_in_a_container_does_not_take_the_others_place(tmp_path: Path) -> None:
    deliver(tmp_path, render(Binding(("0",), VALUES)))
    deliver(tmp_path, "1\n", container="container_other")
    nested = (
        f"CONTAINER_ID=container_other BASH_ENV={BIND_SCRIPT} bash -c 'echo $CUDA_VISIBLE_DEVICES ${{YGS_RANK-none}}'"
    )
    assert run(tmp_path, nested).stdout == "1 none\n"


@pytest.mark.parametrize("unsafe", UNSAFE)
@pytest.mark.parametrize("flags", [(), STRICT])
def test_nothing_of_the_file_is_evaluated(tmp_path: Path, unsafe: str, flags: tuple[str, ...]) -> None:
    trap = tmp_path / "trap"
    value = unsafe.format(trap)
    deliver(tmp_path, render(Binding(("0",), {"YGS_HOSTS": value})))
    assert environment_of(tmp_path, *flags)["YGS_HOSTS"] == value
    for content in (f"{value}\n", f"0\n{value}\n", f"0\nYGS_{value}=x\n", f"!{value}\n"):
        deliver(tmp_path, content)
        assert run(tmp_path, "echo ran", *flags).stdout == ""
    assert not trap.exists()


@pytest.mark.parametrize("flags", [(), STRICT])
def test_container_that_is_not_to_start_ends_with_an_infrastructure_reason(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    deliver(tmp_path, render(Refusal("GPU 3 is held by process 7 of eve")))
    done = run(tmp_path, "echo ran", *flags, YGS_BINDING_MISSING="run")
    assert (done.returncode, done.stdout) == (79, "")
    assert done.stderr == f"ygs: {CONTAINER}: infrastructure: GPU 3 is held by process 7 of eve\n"


@pytest.mark.parametrize("flags", [(), STRICT])
def test_container_without_a_binding_goes_on_unbound_where_that_is_configured(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    show = 'echo "${CUDA_VISIBLE_DEVICES-all} ${NVIDIA_VISIBLE_DEVICES-all} ${BASH_ENV-none}"'
    again = f"export BASH_ENV={BIND_SCRIPT} CUDA_VISIBLE_DEVICES=-1 NVIDIA_VISIBLE_DEVICES=void; bash -c '{show}'"
    settings = {"YGS_BINDING_MISSING": "run", "YGS_BINDING_WAIT_S": "0"}
    for command in (show, again):
        done = run(tmp_path, command, *flags, CUDA_VISIBLE_DEVICES="-1", NVIDIA_VISIBLE_DEVICES="void", **settings)
        assert (done.returncode, done.stdout) == (0, "all all none\n")
        assert done.stderr.count("going on unbound (YGS_BINDING_MISSING=run)") == 1
    assert run(tmp_path, show, CUDA_VISIBLE_DEVICES="2", **settings).stdout == "2 all none\n"


def test_unknown_word_for_what_to_do_without_a_binding_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "echo ran", YGS_BINDING_MISSING="maybe", YGS_BINDING_WAIT_S="0")
    assert (done.returncode, done.stdout) == (78, "")
    assert "YGS_BINDING_MISSING is 'maybe', should be fail or run" in done.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("0\nPATH=/evil\n", "should have lines of YGS_NAME=value"),
        ("0\nYGS_RANK=1\nYGS_RANK=2\n", "no name twice"),
        ("0\nYGS_RANK\n", "should have lines of YGS_NAME=value"),
        ("0\nYGS_RANK=1", "holds no whole line"),
        ("0\n\n", "should have lines of YGS_NAME=value"),
        ("0\nYGS_BINDING_DIR=/evil\n", "should not set YGS_BINDING_DIR"),
        ("0\nYGS_BOUND_CONTAINER=x\n", "should not set YGS_BOUND_CONTAINER"),
        ("0\nYGS_RANK=\x1b[2J\n", "should be printable ASCII"),
        ("0\nYGS_RANK=é\n", "should be printable ASCII"),
        ("0,GPU-b\n", "should begin with GPU indices"),
        ("GPU-" + "a" * 6000 + "\n", "has more GPUs"),
        ("\n" * 34, "has more than 33 lines"),
    ],
)
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_file_that_breaks_the_format_ends_the_container(tmp_path: Path, content: str, words: str, locale: str) -> None:
    deliver(tmp_path, content)
    done = run(tmp_path, "echo ran", LC_ALL=locale, YGS_BINDING_MISSING="run")
    assert (done.returncode, done.stdout) == (78, "")
    assert words in done.stderr
    assert "\x1b" not in done.stderr


PIECES = st.sampled_from(
    [
        "0",
        "3",
        ",",
        UUIDS[0],
        "\n",
        "\nYGS_RANK=",
        "YGS_X=",
        "=",
        "!",
        "\r",
        "PATH=x\n",
        " ",
        "é",
        "$(x)",
        "`",
        "\\",
        "'",
        '"',
        "YGS_BOUND=1\n",
    ]
)


@fuzzed(120, 3_000)
@given(
    text=st.lists(PIECES | st.text(st.characters(min_codepoint=1, codec="utf-8"), max_size=2), max_size=10).map(
        "".join
    ),
    end=st.sampled_from(["", "\n"]),
)
def test_bash_believes_what_the_format_allows_and_no_more(tmp_path: Path, text: str, end: str) -> None:
    text += end
    (tmp_path / CONTAINER).write_bytes(text.encode())
    try:
        binding = parse(text)
    except UnfitBinding as error:
        twice = "name each once" in str(error)  # bash leaves two GPUs alike to those who write
        done = run(tmp_path, "echo ran")
        assert (done.stdout == "" and done.returncode in (78, 79)) or twice
        return
    if isinstance(binding, Refusal):
        done = run(tmp_path, "echo ran")
        assert (done.returncode, done.stdout) == (79, "")
        assert done.stderr == f"ygs: {CONTAINER}: infrastructure: {binding.reason}\n"
        return
    seen = environment_of(tmp_path, *STRICT)
    assert seen["CUDA_VISIBLE_DEVICES"] == ",".join(binding.gpus)
    assert {name: seen[name] for name in binding.values} == binding.values


def launch(folder: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "YGS_BINDING_DIR": str(folder), "CONTAINER_ID": CONTAINER} | more
    return subprocess.run(
        [LAUNCH_SCRIPT, *command], check=False, capture_output=True, text=True, timeout=60, env=environment
    )


SHOWN = ("/usr/bin/printenv", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "YGS_RANK")


def test_launch_binds_a_command_that_no_bash_starts(tmp_path: Path) -> None:
    deliver(tmp_path, render(Binding(UUIDS, VALUES)))
    done = launch(tmp_path, *SHOWN)
    line = ",".join(UUIDS)
    assert (done.stdout, done.stderr, done.returncode) == (f"{line}\n{line}\n2\n", "", 0)
    odd = launch(tmp_path, "/usr/bin/printf", "%s|", "a b", "", "$(c)", "*", "-n")
    assert odd.stdout == "a b||$(c)|*|-n|"


def test_launch_becomes_the_command(tmp_path: Path) -> None:
    deliver(tmp_path, "0\n")
    assert launch(tmp_path, "/bin/sh", "-c", "exit 7").returncode == 7
    assert launch(tmp_path, "/no/such/program").returncode == 127
    nothing = launch(tmp_path)
    assert (nothing.returncode, nothing.stderr) == (
        64,
        "ygs-launch: COMMAND is missing, should be a program and its arguments\n",
    )


def test_launch_is_bound_once_where_admin_env_names_the_script_too(tmp_path: Path) -> None:
    deliver(tmp_path, "0,1\n")
    done = launch(tmp_path, *SHOWN[:2], BASH_ENV=str(BIND_SCRIPT), CUDA_VISIBLE_DEVICES="-1")
    assert (done.stdout, done.stderr) == ("0,1\n", "")
    nested = launch(tmp_path, "/bin/sh", "-c", f"CUDA_VISIBLE_DEVICES=1 {LAUNCH_SCRIPT} printenv CUDA_VISIBLE_DEVICES")
    assert nested.stdout == "1\n"


def test_launch_waits_and_fails_as_a_bash_does(tmp_path: Path) -> None:
    missing = launch(tmp_path, "/bin/echo", "ran", YGS_BINDING_WAIT_S="0")
    assert (missing.returncode, missing.stdout) == (78, "")
    deliver(tmp_path, "!held by a process of eve\n")
    refused = launch(tmp_path, "/bin/echo", "ran")
    assert (refused.returncode, refused.stdout) == (79, "")
    assert "infrastructure: held by a process of eve" in refused.stderr
    (tmp_path / CONTAINER).unlink()
    late = threading.Timer(0.5, deliver, (tmp_path, "1\n"))
    late.start()
    started_s = time.monotonic()
    assert launch(tmp_path, *SHOWN[:2]).stdout == "1\n"
    late.join()
    assert time.monotonic() - started_s >= 0.4


def test_launch_outside_of_containers_changes_nothing() -> None:
    environment = {"PATH": os.environ["PATH"], "BASH_ENV": str(BIND_SCRIPT), "CUDA_VISIBLE_DEVICES": "5"}
    done = subprocess.run([LAUNCH_SCRIPT, "/usr/bin/env"], check=True, capture_output=True, text=True, env=environment)
    assert set(environment) <= {line.split("=")[0] for line in done.stdout.splitlines()}
    assert "CUDA_VISIBLE_DEVICES=5\n" in done.stdout
    assert "YGS" not in done.stdout


def test_launch_is_found_beside_the_script_however_it_is_called(tmp_path: Path) -> None:
    deliver(tmp_path, "0\n")
    environment = {"PATH": f"{LAUNCH_SCRIPT.parent}:{os.environ['PATH']}", "CONTAINER_ID": CONTAINER}
    environment["YGS_BINDING_DIR"] = str(tmp_path)
    for command in (["ygs-launch"], ["bash", "ygs-launch"], ["./ygs-launch"]):
        done = subprocess.run(
            [*command, *SHOWN[:2]],
            check=False,
            capture_output=True,
            text=True,
            env=environment,
            cwd=LAUNCH_SCRIPT.parent,
        )
        assert (done.stdout, done.stderr) == ("0\n", "")


def test_unset_and_empty_visible_devices_differ(tmp_path: Path) -> None:
    deliver(tmp_path, "\n")
    assert run(tmp_path, SHOW).stdout.startswith("[] ")
    assert run(tmp_path, "[[ -v CUDA_VISIBLE_DEVICES ]] && echo set").stdout == "set\n"
