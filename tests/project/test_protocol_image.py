"""`buf breaking` sees a broken field, and the image it compares with changes only together with CHANGELOG.md."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import proto_image

ROOT = proto_image.ROOT
BUF = ROOT / "proto" / "node_modules" / ".bin" / "buf"
FIELD = re.compile(r"^  (string|uint32|uint64|int64) (\w+) = (\d+);$", re.MULTILINE)
GIT_AS = {
    "GIT_AUTHOR_NAME": "test",
    "GIT_AUTHOR_EMAIL": "test@localhost",
    "GIT_COMMITTER_NAME": "test",
    "GIT_COMMITTER_EMAIL": "test@localhost",
}

needs_buf = pytest.mark.skipif(
    not BUF.exists() and "CI" not in os.environ,
    reason="buf is not installed here (no npm); `make lint` installs and runs it",
)


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **GIT_AS})
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a repository of its own with the protocol, its image and the changelog committed."""
    shutil.copytree(ROOT / "proto", tmp_path / "proto", ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(ROOT / "CHANGELOG.md", tmp_path)
    (tmp_path / "proto" / "image.binpb").write_bytes(proto_image.build(tmp_path))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "The protocol as promised")
    return tmp_path


def breaking(root: Path, image: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BUF, "breaking", root / "proto", "--against", image], check=False, capture_output=True, text=True
    )


def change_one_field(root: Path, change: Callable[[re.Match[str]], str]) -> None:
    source = root / "proto" / "yarn_gpu_sched" / "v1" / "job.proto"
    text, changed = FIELD.subn(change, source.read_text(), count=1)
    assert changed == 1
    source.write_text(text)


def renumber(field: re.Match[str]) -> str:
    return f"  {field[1]} {field[2]} = 15000;"


def retype(field: re.Match[str]) -> str:
    return f"  bytes {field[2]} = {field[3]};"


def remove(_field: re.Match[str]) -> str:
    return ""


def rename(field: re.Match[str]) -> str:
    return f"  {field[1]} another_{field[2]} = {field[3]};"


@needs_buf
def test_protocol_keeps_what_the_committed_image_promises() -> None:
    seen = breaking(ROOT, ROOT / proto_image.IMAGE)
    assert seen.returncode == 0, seen.stdout + seen.stderr


@needs_buf
@pytest.mark.parametrize("change", [renumber, retype, remove, rename])
def test_broken_field_is_seen(copy: Path, change: Callable[[re.Match[str]], str]) -> None:
    image = copy / "proto" / "image.binpb"
    assert breaking(copy, image).returncode == 0
    change_one_field(copy, change)
    seen = breaking(copy, image)
    assert seen.returncode != 0
    assert "job.proto" in seen.stdout


def refresh(root: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "tools" / "proto_image.py"
    return subprocess.run([sys.executable, script, root], check=False, capture_output=True, text=True)


@needs_buf
def test_image_is_refreshed_only_with_a_line_in_the_changelog(copy: Path) -> None:
    image = copy / "proto" / "image.binpb"
    promised = image.read_bytes()
    change_one_field(copy, rename)

    refused = refresh(copy)
    assert refused.returncode == 1
    assert "CHANGELOG.md needs a new line" in refused.stderr
    assert image.read_bytes() == promised

    with (copy / "CHANGELOG.md").open("a") as changelog:
        changelog.write("- A field has another name.\n")
    assert refresh(copy).returncode == 0
    assert image.read_bytes() != promised


@needs_buf
def test_refresh_leaves_an_image_alone_that_is_right(copy: Path) -> None:
    done = refresh(copy)
    assert done.returncode == 0
    assert "up to date" in done.stdout
    assert git(copy, "status", "--porcelain") == ""


def test_every_commit_of_the_image_changes_the_changelog_too() -> None:
    commits = git(ROOT, "log", "--format=%H", "--", proto_image.IMAGE).split()
    assert commits, "the image is committed"
    for commit in commits:
        files = git(ROOT, "show", "--root", "--name-only", "--format=", "--first-parent", "-m", commit).splitlines()
        assert "CHANGELOG.md" in files, f"{commit} changed {proto_image.IMAGE} without CHANGELOG.md"
