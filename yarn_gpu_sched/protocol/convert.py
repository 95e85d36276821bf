"""The one door between protobuf and the model.

Coming in, everything is held to the bounds that the protocol states: `BadField` names field, value
and what would be right. Going out, values of the model are trusted.
"""

from yarn_gpu_sched.protocol.bad_field import BadField
from yarn_gpu_sched.protocol.changes import (
    PROTOCOL_VERSIONS,
    Registration,
    batch_events,
    change_event,
    registration,
)
from yarn_gpu_sched.protocol.decisions import add_decision, decision_bytes_max
from yarn_gpu_sched.protocol.messages import (
    container_message,
    job_message,
    resource_message,
    server_message,
    timestamp_message,
    virtual_cluster_message,
    waiting_message,
)
from yarn_gpu_sched.protocol.preemptions import (
    preempted_message,
    preemption_message,
    preview_message,
    victim_message,
)
from yarn_gpu_sched.protocol.values import (
    ask_value,
    asks_value,
    container_value,
    job_value,
    resource_value,
    server_value,
    virtual_cluster_value,
)
from yarn_gpu_sched.protocol.views import (
    cluster_message,
    delay_row_message,
    job_view_message,
    outlook_message,
    server_view_message,
    virtual_cluster_use_message,
)

__all__ = [
    "PROTOCOL_VERSIONS",
    "BadField",
    "Registration",
    "add_decision",
    "ask_value",
    "asks_value",
    "batch_events",
    "change_event",
    "cluster_message",
    "container_message",
    "container_value",
    "decision_bytes_max",
    "delay_row_message",
    "job_message",
    "job_value",
    "job_view_message",
    "outlook_message",
    "preempted_message",
    "preemption_message",
    "preview_message",
    "registration",
    "resource_message",
    "resource_value",
    "server_message",
    "server_value",
    "server_view_message",
    "timestamp_message",
    "victim_message",
    "virtual_cluster_message",
    "virtual_cluster_use_message",
    "virtual_cluster_value",
    "waiting_message",
]
