"""What the demo submits: each story is one application, sized for 4 servers of 4 GPUs and 32 vcores.

Every GPU brings its share of a server's vcores, so that beside the gangs only what is kept for work without GPUs is
left: about three vcores a server. The job of 20 containers therefore cannot run at once, whatever else runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from yarn_gpu_sched.embedded import DISTRIBUTED_SHELL

SERVERS = ((4, 4),)
RACKS = 2
VCORES = 32
VCORES_PER_GPU = 7
MEMORY_MB_PER_GPU = 1_024
MEMORY_MB = 65_536
RELAX_AFTER_S = 10
PREEMPT_AFTER_S, PREEMPT_GRACE_S = 3, 5
WORKER = Path(__file__).parent / "worker.sh"


def of_cluster(gpus: int) -> str:
    """Return so many of the GPUs with their share of the servers, as a queue's capacity."""
    all_gpus = sum(count * each for count, each in SERVERS)
    servers = sum(count for count, _ in SERVERS)
    memory_mb, vcores = (gpus * servers * each // all_gpus for each in (MEMORY_MB, VCORES))
    return f"[memory={memory_mb},vcores={vcores},yarn.io/gpu={gpus}]"


@dataclass(frozen=True)
class Story:
    """One application: ``held`` ones stay until the demo lets them go, the others ``stay_s`` seconds."""

    key: str
    title: str
    containers: int
    gpus: int = 0
    tag: str = ""
    stay_s: int = 1
    held: bool = False
    refused_for: str = ""
    queue: str = "default"

    @property
    def app_name(self) -> str:
        """The application's name in YARN."""
        return f"ygs-demo-{self.key}"

    @property
    def gpus_asked(self) -> int:
        """How many GPUs all its containers ask together."""
        return self.containers * self.gpus

    @property
    def resources(self) -> str:
        """What each container asks, as distributed shell takes it."""
        if not self.gpus:
            return "memory-mb=256,vcores=1"
        memory_mb, vcores = self.gpus * MEMORY_MB_PER_GPU, self.gpus * VCORES_PER_GPU
        return f"memory-mb={memory_mb},vcores={vcores},yarn.io/gpu={self.gpus}"

    def go_file(self, folder: Path) -> Path:
        """Return the file whose appearance lets a held story's workers go."""
        return folder / f"go-{self.key}"

    def yarn_arguments(self, jar: str, folder: Path) -> list[str]:
        """Return what follows `yarn` to submit the story; its workers log to ``folder``."""
        go = str(self.go_file(folder)) if self.held else ""
        return [
            *("jar", jar, DISTRIBUTED_SHELL, "-jar", jar),
            *("-appname", self.app_name, "-queue", self.queue),
            *("-master_memory", "256", "-master_vcores", "1"),
            *("-num_containers", str(self.containers), "-container_resources", self.resources),
            *("-shell_script", str(WORKER), "-shell_args", f"{folder} {self.stay_s} {go}".strip()),
            *(("-application_tags", self.tag) if self.tag else ()),
        ]


FITS = Story("fits", "a gang that fits", 4, gpus=1, tag="gang:4x1", held=True)
FIRST = Story("left", "fits alone, not beside its twin", 3, gpus=4, tag="gang:3x4", held=True)
SECOND = Story("right", "fits alone, not beside its twin", 3, gpus=4, tag="gang:3x4", held=True)
TOO_MANY = Story("too-many", "larger than the cluster", 5, gpus=4, tag="gang:5x4", refused_for="20 GPUs")
TOO_BIG = Story("too-big", "5 GPUs a container, 4 a server", 2, gpus=5, tag="gang:2x5", refused_for="5 GPUs")
WAVES = Story("waves", "20 containers without GPUs", 20, stay_s=2)

WIDE = Story("wide", "three GPUs on each of two servers", 2, gpus=3, tag="gang:2x3", held=True, queue="vision")
ALONG = Story("along", "the same on the others", 2, gpus=3, tag="gang:2x3", held=True, queue="vision")
LOOSER = Story("looser", "would like one server", 2, gpus=1, tag="gang:2x1", held=True, queue="speech")
ONE_MORE = Story("one-more", "beyond its queue's maximum", 1, gpus=1, tag="gang:1x1", held=True, queue="vision")
OWED = Story("owed", "what the quota of its queue promises", 2, gpus=3, tag="gang:2x3", held=True, queue="speech")

TWINS = (FIRST, SECOND)
REFUSED = (TOO_MANY, TOO_BIG)
GANGS = (FITS, FIRST, SECOND, TOO_MANY, TOO_BIG, WAVES)
TENANTS = (WIDE, ALONG, LOOSER, ONE_MORE, OWED)
STORIES = (*GANGS, *TENANTS)
