"""`ygs doctor` as it is typed: what it prints, in 80 columns, as JSON, and its exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.doctor.site import RM, Site, healthy
from tests.doctor.ways import leaf, monitored
from yarn_gpu_sched.cli import ygs
from yarn_gpu_sched.cli.doctor_documents import DoctorDocument
from yarn_gpu_sched.doctor import CHECKS


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Let all daemons be of one address, since nobody can look up their names."""
    with healthy("3.4.2", tmp_path) as found:
        found.pages[RM, "/ws/v1/cluster/nodes"]["nodes"]["node"] = [found.nodes["gpu-a1"], found.nodes["gpu-b1"]]
        del found.service.health[0]
        for node in found.nodes.values():
            node["nodeHTTPAddress"] = f"127.0.0.1:{found.port}"
        ours = {path: page for (host, path), page in found.pages.items() if host == RM}
        ours["/conf"]["properties"] += found.pages["gpu-a1", "/conf"]["properties"]
        of_node = "/ws/v1/node/resources/yarn.io%2Fgpu"
        ours[of_node] = found.pages["gpu-a1", of_node]
        found.pages |= {("127.0.0.1", path): page for path, page in ours.items()}
        yield found


def run(site: Site, *options: str) -> Result:
    arguments = ["doctor", "--rm", f"http://127.0.0.1:{site.port}", "--conf", str(site.folder), *options]
    return CliRunner().invoke(
        ygs, [*arguments, "--service", site.service_address], env={"COLUMNS": "80"}, standalone_mode=False
    )


def test_each_check_has_a_line_and_the_sum_is_last(site: Site) -> None:
    done = run(site)
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line[8:21].strip() for line in lines if line[8:9].strip()][: len(CHECKS)] == [one.name for one in CHECKS]
    assert lines[-1].startswith(f"{len(CHECKS)} checks: ")


def test_a_fault_is_the_exit_code_and_comes_with_what_to_do(site: Site) -> None:
    leaf(configuredMaxAMResourceLimit=0.1, numPendingApplications=3)(site)
    done = run(site)
    assert done.return_value == 1
    assert "fault   am-limit     root.default: 3 applications kept ACCEPTED" in done.output
    assert "do: set" in done.output
    assert "with faults" in done.output.splitlines()[-1]


def test_a_healthy_installation_has_no_findings(site: Site) -> None:
    done = run(site)
    assert done.return_value == 0
    assert done.output.splitlines()[-1] == f"{len(CHECKS)} checks: {len(CHECKS) - 2} ok, 2 not all seen"


def test_a_warning_is_no_fault(site: Site) -> None:
    leaf(userLimitFactor=1.0)(site)
    done = run(site)
    assert "warning user-limit   root.default" in done.output
    assert done.return_value == 0


def test_json_is_the_documented_document(site: Site) -> None:
    leaf(maxApplications=0)(site)
    done = run(site, "--json")
    document = msgspec.json.decode(done.output, type=DoctorDocument)
    assert [one.check for one in document.checks] == [check.name for check in CHECKS]
    by_name = {one.check: one for one in document.checks}
    assert by_name["applications"].verdict == by_name["applications"].findings[0].verdict == "fault"
    assert document.faults == sum(one.verdict == "fault" for one in document.checks)
    assert done.return_value == 1
    assert json.loads(done.output)["faults"] == document.faults


def test_nothing_that_others_named_steers_the_terminal(site: Site) -> None:
    monitored("gpu-b1", monitor_agent="ygs\x1b[2J\u202e monitor 0.0.9")(site)
    leaf(queuePath="root.\x1b[31mred", configuredMaxAMResourceLimit=0.1)(site)
    done = run(site)
    assert "\x1b" not in done.output
    assert "\u202e" not in done.output
    assert "\\x1b[31mred" in "".join(line[21:].rstrip() for line in done.output.splitlines())


def test_the_time_for_all_of_it_has_bounds() -> None:
    done = CliRunner().invoke(ygs, ["doctor", "--timeout", "0"])
    assert done.exit_code == 2
