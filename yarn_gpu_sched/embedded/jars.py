"""The jars of one Hadoop version.

Maven resolves `pom.xml`, the result is compared with the committed hashes (`hadoop-<version>.sha256`) and then
renamed into `$YGS_CACHE/hadoop-<version>-<list>/`, where `<list>` stands for that list: it is there whole or not at all,
and another list is another folder. Two fetches at once wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from yarn_gpu_sched.embedded.cache import cache_folder
from yarn_gpu_sched.embedded.errors import ClusterError

PACKAGE = Path(__file__).parent
DEFAULT_HADOOP = "3.4.2"
EXAMPLES_VERSION = "3.4.2"  # as in pom.xml
MAVEN_S_MAX = 1800


@dataclass(frozen=True, slots=True)
class HadoopJars:
    """The jars of one Hadoop version on disk."""

    version: str
    folder: Path

    @property
    def lib(self) -> tuple[Path, ...]:
        """Jars of every daemon and client, in a fixed order."""
        return tuple(sorted((self.folder / "lib").glob("*.jar")))

    @property
    def webapps(self) -> tuple[Path, ...]:
        """Jars that NameNode and DataNode need besides: their web pages."""
        return tuple(sorted((self.folder / "webapps").glob("*.jar")))

    @property
    def distributed_shell(self) -> Path:
        """The stock example application, for `yarn jar`."""
        return self.folder / "lib" / f"hadoop-yarn-applications-distributedshell-{EXAMPLES_VERSION}.jar"

    @property
    def mapreduce_examples(self) -> Path:
        """MapReduce's stock examples, such as `pi`, for `yarn jar`."""
        return self.folder / "lib" / f"hadoop-mapreduce-examples-{EXAMPLES_VERSION}.jar"


def known_versions() -> tuple[str, ...]:
    """Return the Hadoop versions whose jars are pinned by hash."""
    return tuple(sorted(path.stem.removeprefix("hadoop-") for path in PACKAGE.glob("*.sha256")))


def hadoop_jars(version: str = DEFAULT_HADOOP) -> HadoopJars:
    """Return the jars of `version`, which must have been fetched.

    Raises ClusterError if the version is not known or its jars are not there.
    """
    jars = HadoopJars(version, _folder(version))
    if not jars.folder.is_dir():
        raise ClusterError(
            f"no Hadoop {version} jars in {jars.folder}; "
            f"run `make setup` or `python -m yarn_gpu_sched.embedded.fetch {version}`"
        )
    return jars


def fetch_jars(version: str = DEFAULT_HADOOP) -> HadoopJars:
    """Return the jars of `version`, fetched with Maven if they are not there yet.

    Raises ClusterError if the version is not known, Maven is missing or fails, or a jar is not the pinned one.
    """
    folder = _folder(version)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            _fetch_into(folder, version)
    return hadoop_jars(version)


def verify(folder: Path, version: str) -> None:
    """Compare the jars in `folder` with the committed hashes.

    Raises ClusterError naming each jar that is missing, too many or another one.
    """
    pinned = _pinned(version)
    found = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("*/*.jar"))
    }
    wrong = sorted(name for name in pinned.keys() | found.keys() if pinned.get(name) != found.get(name))
    if wrong:
        raise ClusterError(f"jars of Hadoop {version} differ from hadoop-{version}.sha256: {', '.join(wrong)}")


def _folder(version: str) -> Path:
    pinned = (PACKAGE / f"hadoop-{_checked_version(version)}.sha256").read_bytes()
    return cache_folder() / f"hadoop-{version}-{hashlib.sha256(pinned).hexdigest()[:8]}"


def _checked_version(version: str) -> str:
    if version not in known_versions():
        raise ClusterError(f"hadoop {version!r} is not one that is pinned here; use {', '.join(known_versions())}")
    return version


def _pinned(version: str) -> dict[str, str]:
    text = (PACKAGE / f"hadoop-{version}.sha256").read_text(encoding="ascii")
    return {name: digest for digest, name in re.findall(r"^(\w{64})  (\S+)$", text, re.MULTILINE)}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_into(folder: Path, version: str) -> None:
    parts = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        _run_maven(version, parts)
        verify(parts / "jars", version)
        (parts / "jars").rename(folder)
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def _run_maven(version: str, parts: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ClusterError("mvn is not on the PATH; install Maven (Debian: apt-get install maven)")
    # Maven writes `target/` beside the pom, and an installed package's folder may be read-only.
    shutil.copy(PACKAGE / "pom.xml", parts / "pom.xml")
    jars = parts / "jars"
    done = subprocess.run(
        [
            maven,
            *("--batch-mode", "--no-transfer-progress", "--quiet", "-f", str(parts / "pom.xml")),
            *(f"-Dhadoop.version={version}", f"-Dlib={jars}/lib", f"-Dwebapps={jars}/webapps"),
            "package",
        ],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MAVEN_S_MAX,
    )
    if done.returncode != 0:
        raise ClusterError(
            f"Maven could not fetch Hadoop {version} (exit code {done.returncode}):\n{done.stdout[-4000:]}"
        )
