"""All checks, in the order in which they are made and told: what others rest on first."""

from __future__ import annotations

from yarn_gpu_sched.doctor import binding, certificates, clocks, hdfs, link, queues, resource_manager, security, servers
from yarn_gpu_sched.doctor.check import Check

CHECKS = (
    Check(
        "rm",
        "`/ws/v1/cluster/info` and `nodes` of each ResourceManager named",
        "none answers, none is active, no server runs, or one is unhealthy",
        "start it; name the active one with `--rm`; `yarn node -status`",
        resource_manager.answers,
    ),
    Check(
        "hadoop",
        "versions of ResourceManager and NodeManagers",
        "a line of Hadoop other than 3.4 and 3.5, or two at once",
        "run one of these",
        resource_manager.hadoop,
    ),
    Check(
        "scheduler",
        "`yarn.resourcemanager.scheduler.class` in `/conf`, and `YarnGpuSched` in `/jmx`",
        "stock placement runs, or the shim was named and did not come up",
        "name the shim's class, with its jar on the class path, and restart the ResourceManager ([shim.md](shim.md))",
        resource_manager.scheduler_class,
    ),
    Check(
        "settings",
        "what the shim refuses to start beside: opportunistic containers, stock preemption, constraints by `placement-processor`,"
        " lazy preemption, multi-node and asynchronous placement; an address of the service that needs TLS, with half of the keys"
        " for it or none; the class that keeps asks for GPUs off other servers",
        "placement behind the service's back; the next start of the ResourceManager fails",
        "set the key to what it says",
        resource_manager.refused_settings,
    ),
    Check(
        "counting",
        "`yarn.resource-types`, and the resource calculator in `capacity-scheduler.xml`",
        "YARN knows no GPUs, or does not count them",
        "`resource-types.xml` on all machines; `DominantResourceCalculator`",
        resource_manager.counting,
    ),
    Check(
        "restarts",
        "recovery of ResourceManager and NodeManagers, and how soon who lost it asks again",
        "a restart ends what runs, or GPUs stand idle after it",
        "the keys under Restarts in `hadoop-conf/yarn-site.xml`",
        resource_manager.restarts,
    ),
    Check(
        "service",
        "`GetCluster`",
        "the scheduling service does not answer",
        "start `ygs serve`; `--service`",
        link.service,
    ),
    Check(
        "stream",
        "what the service says of its stream and what the shim counts (`Connected`, `Dropped`), and that both are of one cluster",
        "they are not connected with each other: nothing is placed on GPU servers",
        "`ygs.service-address`, `ygs.cluster-id`; the logs of both",
        link.stream,
    ),
    Check(
        "versions",
        "versions of this command, the service, the shim and the node monitors",
        "parts of different releases",
        "install one release; restart what is older",
        link.versions,
    ),
    Check(
        "queues",
        "queues of YARN and virtual clusters of the service, with their quotas and warnings",
        "the service does not know a queue, a configuration is wrong, quotas promise more GPUs than there are",
        "`capacity-scheduler.xml`, then `yarn rmadmin -refreshQueues`; `ygs vcs`",
        queues.quotas,
    ),
    Check(
        "am-limit",
        "`maximum-am-resource-percent` of each leaf queue, and who waits for it",
        "applications stay ACCEPTED for ever: YARN's default of 0.1 leaves no room for their masters",
        "set it to 1; the service limits masters itself",
        queues.am_limit,
    ),
    Check(
        "applications",
        "`maximum-applications` and `max-parallel-apps` of each leaf queue, and how many there are",
        "a queue refuses or holds back applications; one of capacity 0 may have a maximum of 0",
        "raise the limit",
        queues.applications,
    ),
    Check(
        "user-limit",
        "`user-limit-factor` of each leaf queue",
        "one user cannot borrow, however idle the cluster is",
        "set it to -1",
        queues.user_limits,
    ),
    Check(
        "largest-ask",
        "`yarn.scheduler.maximum-allocation-mb` and `-vcores` against the largest server",
        "YARN cuts or refuses containers that a server would hold",
        "raise them",
        queues.largest_asks,
    ),
    Check(
        "racks",
        "the racks of servers with GPUs",
        "`/default-rack` promises no RDMA domain: for gangs of several servers locality means nothing there",
        "a topology table or script",
        servers.racks,
    ),
    Check(
        "gpus",
        "the GPUs of each server by YARN, the service, its node monitor and its NodeManager's plugin",
        "they disagree, or some are not given out",
        "restart the NodeManager; `node-resources.xml`; `exclude` of the monitor; `ygs ack`",
        servers.gpus,
    ),
    Check(
        "monitors",
        "which GPU servers' node monitors are heard and can read",
        "nothing new is placed on a silent or unreadable server; without a monitor nobody sees what breaks",
        "start `ygs monitor` there ([monitor.md](monitor.md))",
        servers.monitors,
    ),
    Check(
        "binding",
        "`yarn.nodemanager.admin-env` in `/conf` of NodeManagers; on the machine of one, the files that it names",
        "containers see GPUs of others, or wait for a binding that nobody writes and end with exit code 78",
        "`admin-env` as in `hadoop-conf/yarn-site.xml`; restart the NodeManager",
        binding.binding,
    ),
    Check(
        "clocks",
        "the time by ResourceManager, NodeManagers (`Date` of their pages) and service against this machine's",
        "from 5 s on logs mislead; from 300 s on Kerberos, certificates and YARN's container tokens fail",
        "NTP",
        clocks.clocks,
    ),
    Check(
        "certificates",
        "`certificate.pem`, `key.pem` and `authority.pem` of each folder named by `--certificates`; the files of `ygs.tls.*`, if"
        " they are on this machine",
        "they cannot be read, do not belong together, name nobody, have expired or do so within 14 days",
        "`ygs certs issue`",
        certificates.certificates,
    ),
    Check(
        "hdfs",
        "a file that is written by WebHDFS in the folder named by `--hdfs`, read and removed again",
        "the archive cannot write",
        "leave safe mode; rights of the folder; DataNodes that can be reached by name",
        hdfs.writable,
    ),
    Check(
        "security",
        "`hadoop.security.authentication`, and the container executors of NodeManagers",
        "Kerberos or LinuxContainerExecutor is on: what of that was not tried or is not supported",
        "see below",
        security.secure_mode,
    ),
)
