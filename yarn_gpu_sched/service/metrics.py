"""What Prometheus may read. Labels take values from fixed sets, or a bounded number of names, so the series are bounded.

Counters are counted where things happen, on the event loop; gauges are set once a second by
`Gauges`. The exporter's thread only ever reads these numbers, never the engine.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS_BUCKETS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)


class Metrics:
    """All series of one service. Each has its own registry: two services never mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.events = self._counter("events", "Events applied to the engine.")
        self.decisions = self._counter("decisions", "Decisions sent, by kind.", "kind")
        self.outcomes = self._counter("outcomes", "Outcomes reported, by code.", "code")
        self.link_ends = self._counter("link_ends", "Streams of the link ended, by reason.", "reason")
        self.engine_failures = self._counter("engine_failures", "Events the engine failed on.")
        self.broken_laws = self._counter("broken_laws", "Laws found broken by audit.", "law")
        self.recorder_drops = self._counter("recorder_drops", "Events that were not recorded.")
        self.binding_failures = self._counter("binding_failures", "Binding files not written or removed; tried again.")
        self._add_waits_cut_short()
        self._add_monitors()
        self._add_archive()
        self._add_callers()
        self.pass_s = self._histogram("pass_seconds", "Duration of one pass.")
        self.outcome_s = self._histogram("outcome_seconds", "From a decision to its outcome.")
        self.queue_depth = self._gauge("queue_depth", "What waits in a queue.", "queue")
        self.jobs = self._gauge("jobs", "Jobs known, by state.", "state")
        self.jobs_waiting = self._gauge("jobs_waiting", "Pending jobs, by reason.", "reason")
        self.gpus = self._gauge("gpus", "GPUs, by use.", "use")
        self.vc_gpus = self._gauge(
            "vc_gpus", "GPUs of a virtual cluster that has a quota or a maximum, by kind.", "vc", "partition", "kind"
        )
        self.vc_warnings = self._gauge("vc_warnings", "What is wrong with the configuration of virtual clusters.")
        self.waited = self._gauge("waited_seconds", "How long jobs waited, by cause and GPUs at once.", "cause", "size")
        self.vc_waited = self._gauge(
            "vc_waited_seconds", "How long jobs of a virtual cluster waited, by cause.", "vc", "cause"
        )
        self.servers = self._gauge("servers", "Servers known.")
        self.servers_without_domain = self._gauge(
            "servers_without_domain", "Servers with GPUs of which YARN's topology tells no rack."
        )
        self.link_up = self._gauge("link_up", "1 while a resource manager is connected.")
        self.link_epoch = self._gauge("link_epoch", "Epoch of the last resource manager.")
        self.watchers = self._gauge("watchers", "Callers that watch jobs.")

    def _add_waits_cut_short(self) -> None:
        """Add what tells of preemption and of reservations."""
        self.preemptions = self._counter("preemptions", "Jobs, or single containers, ordered to stop for others.")
        self.preemptions_observed = self._counter(
            "preemptions_observed", "Gangs for which others would have been stopped, while it is only observed."
        )
        self.preemption_mode = self._gauge("preemption_mode", "1 for the mode of preemption that holds.", "mode")
        self.preemption_victims_late = self._gauge(
            "preemption_victims_late", "Ordered to stop more than 10 s ago, and not ended."
        )
        self.reservations_made = self._counter(
            "reservations_made", "Gangs for which places were kept because they had waited too long."
        )
        self.reservations_passed = self._counter(
            "reservations_passed", "Decisions that went on what is kept for such gangs."
        )
        self.reservations = self._gauge("reservations", "Gangs for which places are kept now.")
        self.reserved_gpus = self._gauge(
            "reserved_gpus", "GPUs that stand idle now because they are kept for such gangs."
        )

    def _add_monitors(self) -> None:
        """Add what tells of node monitors and of the health of GPUs."""
        self.monitors = self._gauge("monitors", "Node monitors that are connected.")
        self.monitor_messages = self._counter("monitor_messages", "Messages of node monitors that were believed.")
        self.monitor_lies = self._counter(
            "monitor_lies", "What node monitors said that cannot be true or is not theirs to say, by reason.", "reason"
        )
        self.bindings_refused = self._counter(
            "bindings_refused", "Containers that were not let start because their GPUs were not free."
        )
        self.gpu_health = self._gauge("gpu_health", "GPUs that monitors have told of, by health.", "health")
        self.server_telemetry = self._gauge(
            "server_telemetry", "Servers with GPUs, by state of telemetry.", "telemetry"
        )
        self.gpus_not_free = self._gauge("gpus_not_free", "GPUs that were given back and are not seen free.")
        self.idle_jobs = self._gauge("idle_jobs", "Running jobs that use none of their GPUs.")
        self.servers_drained = self._gauge("servers_drained", "Servers that an operator drained.")

    def _add_archive(self) -> None:
        """Add what tells of the archive of what ran."""
        self.archive_rows = self._counter("archive_rows", "Rows written into the archive's spool, by kind.", "kind")
        self.archive_lost_rows = self._counter(
            "archive_lost_rows", "Rows that will never be in the archive, by kind and cause.", "kind", "why"
        )
        self.archive_files = self._counter("archive_files", "Files put into the archive, by kind.", "kind")
        self.archive_failures = self._counter("archive_failures", "Files or folders that the archive did not take.")
        self.archive_waiting_files = self._gauge("archive_waiting_files", "Files that wait to be put into the archive.")
        self.archive_spool_bytes = self._gauge("archive_spool_bytes", "Bytes of the archive's spool.")

    def _add_callers(self) -> None:
        """Add what tells of who calls, and of certificates."""
        self.refused_calls = self._counter(
            "refused_calls",
            "Calls refused for who made them, or that would have changed something, by reason.",
            "reason",
        )
        self.tls_handshakes = self._counter(
            "tls_handshakes", "Connections with TLS that were begun, whatever became of them."
        )
        self.audit_lines = self._counter("audit_lines", "Lines written to the audit log.")
        self.audit_drops = self._counter("audit_drops", "Lines of the audit log that could not be written.")
        self.certificate_expires = self._gauge(
            "certificate_expires_timestamp_seconds", "When a certificate in use expires, seconds since 1970.", "file"
        )
        self.tls_reload_failures = self._counter(
            "tls_reload_failures", "Changes of the TLS files that could not be used: the files before are still in use."
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"ygs_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"ygs_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"ygs_{name}", text, registry=self.registry, buckets=_SECONDS_BUCKETS)
