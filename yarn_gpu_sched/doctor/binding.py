"""Check of GPU binding: what NodeManagers put into the environment of containers, and the files it names on this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from yarn_gpu_sched.doctor.finding import CannotLook, Finding, counted, fault, named, ok, unseen, warning
from yarn_gpu_sched.doctor.installation import Installation, NodePages

_KEY = "yarn.nodemanager.admin-env"
_SEEN = "restart the NodeManagers after a change (hadoop-conf/yarn-site.xml)"
_ENDS = "containers there wait 10 s for a binding and end with exit code 78"


def environment(text: str) -> dict[str, str]:
    """Read the variables of `yarn.nodemanager.admin-env`."""
    return {name.strip(): value for name, _, value in (one.partition("=") for one in text.split(","))}


def binding(installation: Installation) -> Iterator[Finding]:
    """Whether containers are told their GPUs."""
    asked = installation.node_pages
    seen = {pages.node.host: pages for pages in asked if not isinstance(pages.conf, str)}
    dumb = [pages for pages in asked if isinstance(pages.conf, str)]
    if dumb:
        yield unseen(
            f"{len(dumb)} of {len(asked)} NodeManagers do not tell, such as {dumb[0].conf}",
            "ask from where they can be reached",
        )
    if len(asked) < len(installation.nodes):
        yield unseen(f"{len(asked)} of {len(installation.nodes)} NodeManagers were asked, those with GPUs first")
    variables = {host: environment(_conf(pages, _KEY)) for host, pages in seen.items()}
    bound = {host for host, found in variables.items() if found.get("BASH_ENV")}
    with_gpus = {host for host, pages in seen.items() if pages.node.gpus}
    yield from _everywhere(bound, with_gpus)
    yield from _right(bound, with_gpus, variables)
    if bound:
        yield from _delivered(installation, bound & with_gpus)
    for host in bound:
        if _is_here(host):
            yield from _files(host, variables[host])


def _conf(pages: NodePages, key: str) -> str:
    return "" if isinstance(pages.conf, str) else pages.conf.get(key)


def _everywhere(bound: set[str], with_gpus: set[str]) -> Iterator[Finding]:
    missing = sorted(with_gpus - bound)
    if missing:
        yield warning(
            f"{_KEY} has no BASH_ENV on {named(missing)}: containers there use whichever GPUs they please",
            f"set BASH_ENV=…/bind_gpus.sh,YGS_BINDING_DIR=… there, and {_SEEN}",
        )
    elif with_gpus:
        yield ok(f"containers are bound on {counted(len(with_gpus), 'GPU server')}")


def _right(bound: set[str], with_gpus: set[str], variables: dict[str, dict[str, str]]) -> Iterator[Finding]:
    no_folder = sorted(host for host in bound if not variables[host].get("YGS_BINDING_DIR"))
    if no_folder:
        yield fault(
            f"{_KEY} names BASH_ENV and no YGS_BINDING_DIR on {named(no_folder)}: {_ENDS}",
            f"add YGS_BINDING_DIR=, the binding_dir of the monitor there; {_SEEN}",
        )
    waiting = sorted(host for host in bound - with_gpus if variables[host].get("YGS_SERVER_GPUS") != "0")
    if waiting:
        yield fault(
            f"servers without GPUs bind containers, and nobody writes for them: {named(waiting)}: {_ENDS}",
            f"add YGS_SERVER_GPUS=0 to {_KEY} there, or take BASH_ENV out; {_SEEN}",
        )
    zero = sorted(host for host in bound & with_gpus if variables[host].get("YGS_SERVER_GPUS") == "0")
    if zero:
        yield fault(
            f"{_KEY} says YGS_SERVER_GPUS=0 on {named(zero)}, which have GPUs: containers there see none",
            f"take YGS_SERVER_GPUS out there; {_SEEN}",
        )
    open_ = sorted(host for host in bound if "CUDA_VISIBLE_DEVICES" not in variables[host])
    if open_:
        yield warning(
            f"{_KEY} has no CUDA_VISIBLE_DEVICES=-1 on {named(open_)}: who comes by the script sees all GPUs",
            f"add CUDA_VISIBLE_DEVICES=-1,NVIDIA_VISIBLE_DEVICES=void; {_SEEN}",
        )


def _delivered(installation: Installation, bound: set[str]) -> Iterator[Finding]:
    """Somebody has to write what the script waits for."""
    try:
        shim = installation.counters
    except CannotLook:
        return
    if shim is None:
        yield fault(
            f"stock placement writes no bindings, and {named(sorted(bound))} wait for them: {_ENDS}",
            f"take BASH_ENV out of {_KEY} and restart the NodeManagers (docs/operations.md)",
        )


def _is_here(host: str) -> bool:
    return host in (socket.gethostname().lower(), socket.getfqdn().lower())


def _files(host: str, found: dict[str, str]) -> Iterator[Finding]:
    script, folder = Path(found["BASH_ENV"]), Path(found.get("YGS_BINDING_DIR") or "/nonexistent")
    if not os.access(script, os.R_OK):
        yield fault(
            f"{script} cannot be read on {host}: containers start unbound", "copy it from hadoop-conf/, readable by all"
        )
    elif not os.access(script.with_name("ygs-launch"), os.X_OK):
        yield warning(f"ygs-launch is not beside {script} on {host}", "copy it from hadoop-conf/, executable by all")
    else:
        yield ok(f"{script} is there on {host}")
    if not folder.is_dir():
        yield fault(
            f"{folder} (YGS_BINDING_DIR) is no folder on {host}: {_ENDS}", "start ygs monitor with this binding_dir"
        )
