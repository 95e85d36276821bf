from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from defusedxml import ElementTree

from yarn_gpu_sched.embedded import HADOOP_CONF, ClusterError, ClusterSpec, HadoopJars
from yarn_gpu_sched.embedded.configuration import Configuration, read, render, route
from yarn_gpu_sched.embedded.layout import Layout
from yarn_gpu_sched.embedded.ports import NAMES

INSTALL = (Path(__file__).parents[2] / "docs" / "install.md").read_text(encoding="utf-8")
PORTS = {name: 20_000 + offset for offset, name in enumerate(NAMES)}


def written(folder: Path, spec: ClusterSpec) -> Layout:
    layout = Layout(folder / "c")
    layout.make()
    Configuration(spec, layout, HadoopJars("3.4.2", folder), PORTS, "embedded-1", "mark").write()
    return layout


def values(path: Path) -> dict[str, str]:
    root: Element = ElementTree.fromstring(path.read_text())
    return {item.findtext("name", ""): item.findtext("value", "") for item in root.iter("property")}


@pytest.mark.parametrize("path", sorted(HADOOP_CONF.glob("*.xml")), ids=lambda path: path.name)
def test_each_key_of_the_operators_files_says_why(path: Path) -> None:
    root: Element = ElementTree.fromstring(path.read_text())
    properties = list(root.iter("property"))
    assert properties
    for item in properties:
        assert len(item.findtext("description", "").split()) >= 4, item.findtext("name")
    names = [item.findtext("name") for item in properties]
    assert len(names) == len(set(names))


def test_what_is_commented_out_is_ready_to_be_taken_in() -> None:
    text = (HADOOP_CONF / "yarn-site.xml").read_text()
    left_out = "".join(re.findall(r"^  <!-- With the service on another machine.*?-->", text, re.DOTALL | re.MULTILINE))
    properties = ElementTree.fromstring(f"<c>{left_out[left_out.index('<property>') : -len('-->')]}</c>").iter(
        "property"
    )
    found = {item.findtext("name"): item.findtext("value") for item in properties}
    assert found == dict(re.findall(r"<name>(ygs\.tls\.\w+)</name><value>(.*?)</value>", INSTALL))


def test_files_of_the_checkout_are_those_of_the_package() -> None:
    assert (Path(__file__).parents[2] / "hadoop-conf").resolve() == HADOOP_CONF.resolve()


def test_cluster_starts_from_the_operators_files(tmp_path: Path) -> None:
    layout = written(tmp_path, ClusterSpec())
    ours = values(layout.conf / "yarn-site.xml")
    theirs = read("yarn-site")
    changed = {name for name, value in theirs.items() if ours[name] != value}
    assert changed == {"ygs.cluster-id", "yarn.resourcemanager.fs.state-store.uri"}
    assert values(layout.conf / "capacity-scheduler.xml") == read("capacity-scheduler")


def test_settings_go_to_the_file_that_hadoop_reads_them_from(tmp_path: Path) -> None:
    settings = {
        "yarn.scheduler.capacity.root.queues": "a,b",
        "yarn.scheduler.maximum-allocation-mb": "512",
        "dfs.replication": "2",
        "ipc.client.connect.max.retries": "3",
        "ygs.settle-s": "5",
    }
    layout = written(tmp_path, ClusterSpec(settings=settings))
    assert values(layout.conf / "capacity-scheduler.xml")["yarn.scheduler.capacity.root.queues"] == "a,b"
    assert values(layout.conf / "yarn-site.xml")["yarn.scheduler.maximum-allocation-mb"] == "512"
    assert values(layout.conf / "yarn-site.xml")["ygs.settle-s"] == "5"
    assert values(layout.conf / "hdfs-site.xml")["dfs.replication"] == "2"
    assert values(layout.conf / "core-site.xml")["ipc.client.connect.max.retries"] == "3"


def test_settings_win_on_servers_too(tmp_path: Path) -> None:
    layout = written(tmp_path, ClusterSpec(settings={"yarn.nodemanager.resource.memory-mb": "777"}))
    conf = layout.server("gpu-a1") / "conf"
    assert values(conf / "yarn-site.xml")["yarn.nodemanager.resource.memory-mb"] == "777"


def test_setting_that_is_no_string_is_refused() -> None:
    with pytest.raises(ClusterError, match="True should be a string"):
        route({"yarn.acl.enable": True})  # type: ignore[dict-item] # what is tested is the refusal of this


def test_values_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "x.xml"
    file.write_text(render({"a&b": "<c> ]]> \"d\" 'e'"}))
    assert values(file) == {"a&b": "<c> ]]> \"d\" 'e'"}


def test_servers_differ_in_gpus_and_binding(tmp_path: Path) -> None:
    spec = ClusterSpec(servers=((1, 4),), racks=1, cpu_servers=1, binding_dir=tmp_path / "bindings")
    layout = written(tmp_path, spec)
    with_gpus, without = layout.server("gpu-a1") / "conf", layout.server("cpu-1") / "conf"
    assert values(with_gpus / "node-resources.xml") == {"yarn.nodemanager.resource-type.yarn.io/gpu": "4"}
    assert not (without / "node-resources.xml").exists()
    environment = values(with_gpus / "yarn-site.xml")["yarn.nodemanager.admin-env"].split(",")
    assert f"BASH_ENV={HADOOP_CONF}/bind_gpus.sh" in environment
    assert f"YGS_BINDING_DIR={tmp_path}/bindings" in environment
    assert "YGS_SERVER_GPUS=4" in environment
    assert "CUDA_VISIBLE_DEVICES=-1" in environment  # for a container that comes by the script
    assert "YGS_SERVER_GPUS=0" in values(without / "yarn-site.xml")["yarn.nodemanager.admin-env"]


def test_a_server_whose_gpus_are_taken_out_names_none(tmp_path: Path) -> None:
    layout = written(tmp_path, ClusterSpec(servers=((1, 4),), racks=1))
    resources = layout.server("gpu-a1") / "conf" / "node-resources.xml"
    assert resources.exists()
    written(tmp_path, ClusterSpec(servers=((1, 4),), racks=1, changed={"gpu-a1": (0, "/rack-a")}))
    assert not resources.exists()


def test_without_a_binding_folder_nothing_is_bound(tmp_path: Path) -> None:
    layout = written(tmp_path, ClusterSpec())
    conf = layout.server("gpu-a1") / "conf"
    assert "BASH_ENV" not in values(conf / "yarn-site.xml")["yarn.nodemanager.admin-env"]


def test_racks_are_told_by_name_and_by_address(tmp_path: Path) -> None:
    layout = written(tmp_path, ClusterSpec(servers=((1, 1), (1, 2)), racks=2))
    assert (layout / "topology").read_text().splitlines() == [
        "gpu-a1\t/rack-a",
        "127.0.1.1\t/rack-a",
        "gpu-b1\t/rack-b",
        "127.0.1.2\t/rack-b",
    ]


def test_each_server_has_its_own_address_on_this_machine(tmp_path: Path) -> None:
    spec = ClusterSpec(servers=((2, 4),), racks=2, cpu_servers=1)
    first, *lines = (written(tmp_path, spec) / "hosts").read_text().splitlines()
    assert first.split()[:2] == ["127.0.0.1", "localhost"]
    assert lines == [f"{server.address} {server.name}" for server in spec.server_list()]
    assert len({line.split()[0] for line in lines}) == 3


def test_service_address_is_the_shims(tmp_path: Path) -> None:
    layout = written(tmp_path, ClusterSpec(service_address="127.0.0.1:9999"))
    assert values(layout.conf / "yarn-site.xml")["ygs.service-address"] == "127.0.0.1:9999"
