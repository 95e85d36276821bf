"""The check of HDFS where there is none; with a real one: tests/real/test_doctor.py."""

from __future__ import annotations

import sys

import pytest

from tests.doctor.site import Site
from yarn_gpu_sched.doctor import Verdict


def test_nobody_named_one(site: Site) -> None:
    found = site.look("hdfs")
    assert found.verdict == Verdict.UNSEEN
    assert "--hdfs http://" in found.findings[0].do


def test_one_that_does_not_answer(site: Site) -> None:
    site.places |= {"hdfs": "http://127.0.0.1:1/archive", "hdfs_user": "ada"}
    found = site.look("hdfs")
    assert found.verdict == Verdict.FAULT
    assert "refused" in found.findings[0].sentence
    assert "NameNode" in found.findings[0].do


def test_a_dry_run_asks_nobody(site: Site) -> None:
    site.places |= {"hdfs": "http://127.0.0.1:1/archive", "hdfs_user": "ada", "dry_run": True}
    found = site.look("hdfs")
    assert found.verdict == Verdict.UNSEEN
    assert "ada would write /archive/.ygs-doctor-" in found.findings[0].sentence


@pytest.mark.parametrize("address", ["namenode:9870", "hdfs://namenode/x", "http://", "http:///x"])
def test_what_is_no_address(site: Site, address: str) -> None:
    site.places["hdfs"] = address
    assert "http://namenode:9870/archive" in site.look("hdfs").findings[0].sentence


def test_without_the_extra(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs", None)
    site.places |= {"hdfs": "http://127.0.0.1:1/archive", "hdfs_user": "ada"}
    assert "yarn-gpu-sched[archive]" in site.look("hdfs").findings[0].do


def test_too_little_time_is_no_fault_of_hdfs(site: Site) -> None:
    site.places |= {"hdfs": "http://127.0.0.1:1/archive", "hdfs_user": "ada"}
    site.timeout_s = 5.0
    found = site.look("hdfs")
    assert found.verdict == Verdict.UNSEEN
    assert "--timeout" in found.findings[0].do
