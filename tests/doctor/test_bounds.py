"""Whatever daemons answer, or don't: every check says something, the others go on, and the whole ends in time."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.site import HOSTS, RM, Site, healthy
from tests.doctor.ways import service_stopped, stopped
from yarn_gpu_sched.doctor import CHECKS, Check, Places, Result, Verdict, examine, installation
from yarn_gpu_sched.doctor import finding as findings
from yarn_gpu_sched.doctor.finding import CannotLook
from yarn_gpu_sched.doctor.hadoop_files import read_files
from yarn_gpu_sched.doctor.web import PAGE_BYTES_MAX, Web

GARBAGE: list[Any] = [[], {}, None, "text", 7, b"", b"\xff\xfe", b'{"beans":', 204, 302, 404, 503, {"beans": [1]}]
GARBAGE += [{"nodes": {"node": [{"id": 1}]}}, {"properties": [{"key": None}]}, {"clusterInfo": {"haState": "ACTIVE"}}]


def examined(site: Site) -> dict[str, Result]:
    found = {one.check: one for one in examine(site.installation())}
    assert list(found) == [check.name for check in CHECKS]
    assert all(each.sentence for one in found.values() for each in one.findings)
    return found


@pytest.mark.parametrize("answer", GARBAGE, ids=lambda answer: repr(answer)[:24])
def test_garbage_in_any_page_is_said_and_keeps_nobody_from_looking(site: Site, answer: Any) -> None:  # noqa: ANN401 - values of JSON are of any kind
    whole = dict(site.pages)
    for page in whole:
        site.pages = whole | {page: answer}
        found = examined(site)
        failed = [
            each for one in found.values() for each in one.findings if each.sentence.startswith("this check failed")
        ]
        assert failed == [], page
        assert found["racks"].verdict == Verdict.OK or page[1] in ("/ws/v1/cluster/info", "/ws/v1/cluster/nodes")


def test_without_resource_manager_the_service_is_still_looked_at(site: Site) -> None:
    stopped(site)
    found = examined(site)
    assert found["rm"].verdict == Verdict.FAULT
    assert [found[name].verdict for name in ("service", "versions", "monitors")] == [Verdict.OK] * 3
    assert "refused" in found["racks"].findings[0].sentence


def test_without_service_the_resource_manager_is_still_looked_at(site: Site) -> None:
    service_stopped(site)
    found = examined(site)
    assert found["service"].verdict == Verdict.FAULT
    assert [found[name].verdict for name in ("rm", "scheduler", "am-limit", "racks", "binding")] == [Verdict.OK] * 5
    assert found["stream"].verdict == Verdict.UNSEEN


def test_files_speak_for_a_resource_manager_that_is_away(site: Site) -> None:
    stopped(site)
    site.write_conf("yarn-site", {"yarn.resourcemanager.scheduler.monitor.enable": "true"})
    site.write_conf("resource-types", {"yarn.resource-types": "yarn.io/gpu"})
    found = examined(site)
    assert found["settings"].verdict == Verdict.FAULT
    assert found["counting"].verdict == Verdict.OK


def test_one_unreachable_server_is_said_and_the_others_are_looked_at(site: Site) -> None:
    site.nodes["gpu-b1"]["nodeHTTPAddress"] = "gpu-b1:1"
    found = examined(site)
    assert "1 of 3 NodeManagers do not tell, such as http://gpu-b1:1/conf" in found["binding"].findings[0].sentence
    assert found["binding"].verdict == Verdict.UNSEEN
    assert found["security"].verdict == Verdict.OK


def test_the_whole_ends_in_time_although_nobody_answers(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        site.places["rm"] = (f"http://127.0.0.1:{mute.getsockname()[1]}",)
        site.service_address = f"127.0.0.1:{mute.getsockname()[1]}"
        site.timeout_s = 2.0
        begun_s = time.monotonic()
        found = examined(site)
        assert time.monotonic() - begun_s < 20
    assert found["rm"].verdict == found["service"].verdict == Verdict.FAULT


def test_silent_servers_take_no_time_from_other_checks(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "NODES_S_MAX", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        for node in site.nodes.values():
            node["nodeHTTPAddress"] = f"127.0.0.1:{mute.getsockname()[1]}"
        begun_s = time.monotonic()
        found = site.look("binding")
        assert time.monotonic() - begun_s < 8
    assert found.verdict == Verdict.UNSEEN
    assert "3 of 3 NodeManagers do not tell" in found.findings[0].sentence


def test_a_page_that_never_ends_is_left(site: Site) -> None:
    chunk = b"[" * (1 << 20)
    with socket.create_server(("127.0.0.1", 0)) as server:
        site.timeout_s = 1.5
        site.places["rm"] = (f"http://127.0.0.1:{server.getsockname()[1]}",)

        def flood() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                try:
                    while True:
                        connection.sendall(chunk)
                except OSError:
                    return

        thread = threading.Thread(target=flood)
        thread.start()
        (check,) = [one for one in CHECKS if one.name == "rm"]
        found = check.run(site.installation())
        thread.join(timeout=60)
    assert found.verdict == Verdict.FAULT
    assert any(words in found.findings[0].sentence for words in (f"{PAGE_BYTES_MAX} bytes", "did not end in time"))


@pytest.mark.parametrize("drop", [b"a", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0"])
def test_an_answer_that_comes_by_drops_is_left(drop: bytes) -> None:
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(drop)
                while not done.wait(0.1):
                    connection.sendall(drop[-1:])

        thread = threading.Thread(target=drip)
        thread.start()
        web, begun_s = Web(time.monotonic() + 1.0), time.monotonic()
        threading.Timer(10.0, done.set).start()
        with pytest.raises(CannotLook, match=r"did not end in time|timed out"):
            web.page(f"http://127.0.0.1:{server.getsockname()[1]}/")
        assert time.monotonic() - begun_s < 5
        done.set()
        thread.join(timeout=60)


def test_a_value_that_grows_without_end_is_left(tmp_path: Path) -> None:
    value = "<property><name>a</name><value>${a}${a}${a}</value></property>"
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{value}</configuration>")
    assert len(read_files(tmp_path, ["yarn-site"]).get("a")) <= 1 << 20


def test_a_redirect_is_not_followed_and_a_proxy_not_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert site.look("rm").verdict == Verdict.OK
    site.pages[RM, "/ws/v1/cluster/info"] = 302
    assert "HTTP 302" in site.look("rm").findings[0].sentence


@pytest.mark.parametrize("address", ["file:///etc/hostname", "rm:8088", "ftp://rm", "http://", "http://[::1"])
def test_only_web_addresses_are_read(address: str) -> None:
    with pytest.raises(findings.CannotLook):
        Web(time.monotonic() + 5).page(f"{address}/ws/v1/cluster/info")


def test_counters_that_are_old_are_asked_for_again(site: Site) -> None:
    page = (RM, "/jmx?qry=Hadoop:service=ResourceManager,name=YarnGpuSched")
    old, new = ({"beans": [{**site.counters, "Connected": connected}]} for connected in (0, 1))
    site.pages[page] = lambda: new if len(site.slept) > 3 else old
    assert site.look("stream").verdict == Verdict.OK
    assert sum(site.slept) == 4


def test_of_many_findings_the_first_are_told_and_the_rest_counted() -> None:
    found = findings.result("x", [findings.warning(str(n), "do") for n in range(30)])
    assert len(found.findings) == findings.FINDINGS_MAX + 1
    assert found.findings[-1].sentence == f"and {30 - findings.FINDINGS_MAX} more findings"


def test_the_worst_is_told_first() -> None:
    found = findings.result("x", [findings.ok("a"), findings.warning("b", "do"), findings.fault("c", "do")])
    assert [each.sentence for each in found.findings] == ["c", "b", "a"]
    assert found.verdict == Verdict.FAULT


def test_a_check_that_fails_is_unseen(site: Site) -> None:
    found = Check("x", "", "", "", lambda _: [findings.ok(str(1 // 0))]).run(site.installation())
    assert found.verdict == Verdict.UNSEEN
    assert "ZeroDivisionError" in found.findings[0].sentence


def test_addresses_of_resource_managers_come_from_the_files(site: Site) -> None:
    standby = {**site.pages[RM, "/ws/v1/cluster/info"]["clusterInfo"], "haState": "STANDBY"}
    site.pages["cpu-1", "/ws/v1/cluster/info"] = {"clusterInfo": standby}
    ha = {
        "yarn.resourcemanager.ha.rm-ids": "rm1, rm2",
        "yarn.resourcemanager.webapp.address.rm1": f"cpu-1:{site.port}",
        "yarn.resourcemanager.hostname.rm2": RM,
        "yarn.resourcemanager.webapp.address.rm2": "${yarn.resourcemanager.hostname.rm2}" + f":{site.port}",
    }
    site.places["rm"] = ()
    site.write_conf("yarn-site", ha)
    assert f"http://rm:{site.port} is active" in site.look("rm").findings[0].sentence


@pytest.mark.parametrize("hadoop", ["3.4.2", "3.5.0"])
def test_many_servers_are_asked_in_part(hadoop: str, tmp_path: Path) -> None:
    with healthy(hadoop, tmp_path) as site:
        listed = site.pages[RM, "/ws/v1/cluster/nodes"]["nodes"]["node"]
        listed += [{**site.nodes["cpu-1"], "id": f"cpu-1:{number}"} for number in range(300)]
        found = site.look("binding")
    assert f"100 of {len(HOSTS) + 300} NodeManagers were asked" in found.findings[0].sentence


def test_places_are_optional() -> None:
    assert Places() == Places(rm=(), conf=None, hdfs="", hdfs_user="", certificates=(), dry_run=False)
