"""What Prometheus may read: GPUs by the names and labels of the DCGM exporter, with job and container, and the monitor itself.

What is not available has no sample: never a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from yarn_gpu_sched import exporter
from yarn_gpu_sched.identity import TlsFiles, is_loopback
from yarn_gpu_sched.monitor.reading import GpuReading

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU_LABELS = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "slot", "job_id", "container_id", "vc")

GpuValue = Callable[["GpuShown"], float | None]


class GpuShown(msgspec.Struct, frozen=True):
    """A GPU as it was last read, who holds it, and the last Xid that was seen of it."""

    slot: int
    gpu: GpuReading
    job_id: str = ""
    container_id: str = ""
    vc: str = ""
    xid: int | None = None


class Shown(msgspec.Struct, frozen=True):
    """All that is shown, as one look at the server left it. ``counts`` and ``levels`` are of the monitor itself, by series."""

    host: str
    gpus: tuple[GpuShown, ...] = ()
    counts: Mapping[str, float] = {}
    levels: Mapping[str, float] = {}
    certificate_expires_s: float | None = None
    bad_fields: Mapping[tuple[int, str], int] = {}
    failed_reads: Mapping[str, int] = {}


def _free_mb(shown: GpuShown) -> float | None:
    used_mb, total_mb = shown.gpu.memory_used_mb, shown.gpu.memory_total_mb
    return None if used_mb is None or total_mb is None else total_mb - used_mb


# The two of ECC count, and are called counters by the DCGM exporter; here they are gauges, because the library would add `_total`.
GPU_SERIES: tuple[tuple[str, str, GpuValue], ...] = (
    ("DCGM_FI_DEV_GPU_UTIL", "Time in which kernels ran, percent.", lambda shown: shown.gpu.sm_percent),
    (
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "Time in which memory was read or written, percent.",
        lambda shown: shown.gpu.memory_percent,
    ),
    ("DCGM_FI_DEV_FB_USED", "Memory in use, MiB.", lambda shown: shown.gpu.memory_used_mb),
    ("DCGM_FI_DEV_FB_FREE", "Memory that is free, MiB.", _free_mb),
    ("DCGM_FI_DEV_GPU_TEMP", "Temperature, degrees Celsius.", lambda shown: shown.gpu.temperature_c),
    ("DCGM_FI_DEV_POWER_USAGE", "Power, watts.", lambda shown: shown.gpu.power_w),
    ("DCGM_FI_DEV_XID_ERRORS", "Number of the last Xid error that was seen; none: no sample.", lambda shown: shown.xid),
    (
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "ECC errors that were corrected, since the driver was loaded.",
        lambda shown: shown.gpu.ecc_corrected,
    ),
    (
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "ECC errors that could not be corrected, since the driver was loaded.",
        lambda shown: shown.gpu.ecc_uncorrected,
    ),
)
COUNTS: dict[str, str] = {
    "ygs_monitor_reads": "Readings of the GPUs.",
    "ygs_monitor_pushes": "Messages sent to the service.",
    "ygs_monitor_streams": "Streams to the service that were begun.",
    "ygs_monitor_dropped": "Readings and events that the service was never told, because too much waited.",
    "ygs_monitor_binding_failures": "Binding files that could not be written, and container ids that cannot have one.",
    "ygs_monitor_binding_refusals": "Containers that were not let start because their GPUs were not free.",
    "ygs_monitor_strays_ended": "Processes on GPUs not theirs that were asked to end.",
}
LEVELS: dict[str, str] = {
    "ygs_monitor_connected": "1 while the service hears this monitor.",
    "ygs_monitor_waiting": "GPUs and events that wait to be told to the service.",
    "ygs_monitor_bindings": "Containers of this server that the service named.",
    "ygs_monitor_cards_vanished": "Slots whose cards are not there.",
    "ygs_monitor_strays": "Processes on GPUs that are not theirs, as of the newest reading.",
    "ygs_monitor_read_age_seconds": "Seconds from the newest reading that succeeded to the last look.",
}


class ShownCollector(Collector):
    """Turns what is shown now into series. Called in the exporter's threads: it reads one unchanging value."""

    def __init__(self, shown: Callable[[], Shown]) -> None:
        self._shown = shown

    def collect(self) -> Iterator[Metric]:
        """Yield all series."""
        shown = self._shown()
        yield from _of_gpus(shown)
        for name, meaning in COUNTS.items():
            yield CounterMetricFamily(name, meaning, value=shown.counts.get(name, 0))
        for name, meaning in LEVELS.items():
            yield GaugeMetricFamily(name, meaning, value=shown.levels.get(name, 0))
        if shown.certificate_expires_s is not None:
            meaning = "When the monitor's certificate expires, seconds since 1970; without TLS no sample."
            name = "ygs_monitor_certificate_expires_timestamp_seconds"
            yield GaugeMetricFamily(name, meaning, value=shown.certificate_expires_s)
        failed = CounterMetricFamily("ygs_monitor_reads_failed", "Readings that failed, by cause.", labels=["cause"])
        for cause, count in sorted(shown.failed_reads.items()):
            failed.add_metric([cause], count)
        yield failed
        meaning = "Values that no hardware can mean, by GPU and field: they are dropped."
        bad = CounterMetricFamily("ygs_monitor_bad_fields", meaning, labels=["slot", "field"])
        for (slot, field), count in sorted(shown.bad_fields.items()):
            bad.add_metric([str(slot), field], count)
        yield bad


def _of_gpus(shown: Shown) -> Iterator[Metric]:
    labelled = [(_labels(shown.host, each), each) for each in shown.gpus]
    for name, meaning, value_of in GPU_SERIES:
        family = GaugeMetricFamily(name, meaning, labels=GPU_LABELS)
        for labels, each in labelled:
            if (value := value_of(each)) is not None:
                family.add_metric(labels, value)
        yield family


def _labels(host: str, shown: GpuShown) -> list[str]:
    gpu = shown.gpu
    minor = gpu.index if gpu.minor is None else gpu.minor
    card = [str(gpu.index), gpu.uuid, gpu.pci_bus_id or "", f"nvidia{minor}", gpu.model or "", host]
    return [*card, str(shown.slot), shown.job_id, shown.container_id, shown.vc]


class Exporter:
    """An HTTP server for what is shown. OSError if the port is in use; beyond loopback it needs ``tls``."""

    def __init__(self, listen: str, shown: Callable[[], Shown], tls: TlsFiles | None = None) -> None:
        host, _, port = listen.rpartition(":")
        registry = CollectorRegistry()
        registry.register(ShownCollector(shown))
        self._serving = exporter.Exporter(host, int(port), registry, None if is_loopback(host) else tls)
        self.port = self._serving.port

    def close(self) -> None:
        """Stop listening."""
        self._serving.close()
