"""Each check finds nothing on a healthy installation, and names what is broken, with what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.doctor.breaks import OF_ALL_ELSE
from tests.doctor.breaks_of_rm import OF_THE_RESOURCE_MANAGER
from tests.doctor.site import Break, Site, healthy
from yarn_gpu_sched.doctor import CHECKS, Finding, Verdict, examine

BREAKS = [*OF_THE_RESOURCE_MANAGER, *OF_ALL_ELSE]
LOOKED_AT_ELSEWHERE = {"certificates": "test_certificates.py", "hdfs": "test_hdfs.py"}


@pytest.mark.parametrize("hadoop", ["3.4.2", "3.5.0"])
def test_nothing_is_found_on_a_healthy_installation(hadoop: str, tmp_path: Path) -> None:
    with healthy(hadoop, tmp_path) as site:
        found = {one.check: one for one in examine(site.installation())}
    assert list(found) == [check.name for check in CHECKS]
    unseen = set(LOOKED_AT_ELSEWHERE)
    assert {name: one.findings for name, one in found.items() if one.verdict != _expected(name, unseen)} == {}
    assert all(each.verdict == Verdict.OK for name, one in found.items() if name not in unseen for each in one.findings)


def _expected(name: str, unseen: set[str]) -> Verdict:
    return Verdict.UNSEEN if name in unseen else Verdict.OK


class Broken(NamedTuple):
    """What is broken for which check, and what it says: verdict, and words of the sentence and of what to do."""

    check: str
    how: Break
    verdict: Verdict
    sentence: str
    do: str


@pytest.mark.parametrize("broken", [pytest.param(Broken(*one[1:]), id=one[0]) for one in BREAKS])
def test_what_is_broken_is_named(site: Site, broken: Broken) -> None:
    broken.how(site)
    found = site.look(broken.check)
    assert found.verdict == broken.verdict, found
    assert any(_says(each, broken) for each in found.findings), found


def _says(finding: Finding, broken: Broken) -> bool:
    if finding.verdict != broken.verdict or not re.search(broken.sentence, finding.sentence):
        return False
    return bool(re.search(broken.do, finding.do)) and bool(finding.do)


def test_each_check_has_something_broken_that_it_names() -> None:
    assert {one[1] for one in BREAKS} | LOOKED_AT_ELSEWHERE.keys() == {check.name for check in CHECKS}


def test_the_names_of_checks_are_their_own() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
