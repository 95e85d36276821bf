"""Lets Prometheus read the metrics of a process: plainly on loopback, by TLS with client certificates elsewhere."""

from yarn_gpu_sched.exporter.exporter import Exporter

__all__ = ["Exporter"]
