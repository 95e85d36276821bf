"""The directory of binding files: ours alone, and nothing outside of it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarn_gpu_sched.binding.binding_files import BindingFiles, UnfitDirectory, is_file_name


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "bindings"


@pytest.fixture
def files(directory: Path) -> Iterator[BindingFiles]:
    taken = BindingFiles(directory)
    yield taken
    taken.close()


@pytest.mark.parametrize(
    "name",
    [
        ".",
        "..",
        "",
        "/etc/passwd",
        "../up",
        "a/b",
        "a\x00b",
        "a\nb",
        "container 1",
        "ä",
        "~new",
        "c" * 201,
        "a\\b",
        "c\n",
    ],
)
def test_hostile_names_are_no_file_names(name: str) -> None:
    assert not is_file_name(name)


@pytest.mark.parametrize("name", ["container_e17_1790000000000_0001_01_000002", "a", "...", ".hidden", "c" * 200])
def test_plain_names_are_file_names(name: str) -> None:
    assert is_file_name(name)


def test_contents_are_written_replaced_and_removed(files: BindingFiles, directory: Path) -> None:
    assert files.change({"a": "0,3\n", "b": "\n"}) == {}
    assert (directory / "a").read_text() == "0,3\n"
    assert (directory / "b").read_text() == "\n"
    assert files.change({"a": "1\n", "b": None, "c": None}) == {}
    assert (directory / "a").read_text() == "1\n"
    assert files.names() == {"a"}


def test_files_can_be_read_by_containers_of_any_user(directory: Path) -> None:
    before = os.umask(0o077)
    try:
        files = BindingFiles(directory)
        files.change({"a": "0\n"})
        files.close()
    finally:
        os.umask(before)
    assert directory.stat().st_mode & 0o777 == 0o755
    assert (directory / "a").stat().st_mode & 0o777 == 0o644


def test_a_link_to_the_outside_is_replaced_not_followed(files: BindingFiles, directory: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    for name in ("a", "~new"):
        (directory / name).symlink_to(outside)
    assert files.change({"a": "0\n"}) == {}
    assert outside.read_text() == "precious"
    assert not (directory / "a").is_symlink()


def test_only_plain_files_are_removed(files: BindingFiles, directory: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (directory / "link").symlink_to(outside)
    (directory / "folder").mkdir()
    assert files.change({"link": None, "folder": None}) == {}
    assert outside.read_text() == "precious"
    assert (directory / "folder").is_dir()


def test_a_directory_moved_away_takes_its_files_along(files: BindingFiles, directory: Path, tmp_path: Path) -> None:
    directory.rename(tmp_path / "moved")
    directory.mkdir()
    files.change({"a": "0\n"})
    assert (tmp_path / "moved" / "a").exists()
    assert list(directory.iterdir()) == []


def test_a_directory_of_somebody_else_is_refused(directory: Path) -> None:
    directory.mkdir()
    (directory / "precious").touch()
    with pytest.raises(UnfitDirectory, match="must be empty or the binding_dir of a service before"):
        BindingFiles(directory)
    assert (directory / "precious").exists()


def test_the_directory_of_a_service_before_is_taken_again(directory: Path) -> None:
    first = BindingFiles(directory)
    first.change({"a": "0\n"})
    first.close()
    second = BindingFiles(directory)
    assert second.names() == {"a"}
    second.close()


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnfitDirectory, match="cannot be used"):
        BindingFiles(tmp_path / "file")


def test_failures_are_returned_for_each_file(files: BindingFiles, directory: Path) -> None:
    (directory / "folder").mkdir()
    errors = files.change({"folder": "0\n", "b": "1\n"})
    assert list(errors) == ["folder"]
    assert (directory / "b").exists()
