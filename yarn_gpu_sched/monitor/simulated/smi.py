"""`nvidia-smi` on simulated cards: `-x -q`, `-L`, `--query-gpu=… --format=csv`, `--query-compute-apps=…`, each with `-i`.

    python -m yarn_gpu_sched.monitor.simulated.smi SPEC SCENARIO STATE_DIR HOST ARGUMENT...

`install.py` writes a program of that name which runs this. Empty words stand for what is not given.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from yarn_gpu_sched.monitor.simulated import smi_query, smi_xml
from yarn_gpu_sched.monitor.simulated import smi_text as text
from yarn_gpu_sched.monitor.simulated.opening import open_server
from yarn_gpu_sched.monitor.simulated.server import SimulatedServer
from yarn_gpu_sched.monitor.simulated.smi_text import Shown
from yarn_gpu_sched.monitor.simulated.state import DRIVER_VERSION, ServerState, Trouble

_HANG_STEP_S: Final = 0.05
_WRONG_USAGE: Final = 2
_NO_DEVICES: Final = 6
_LOST: Final = 15
_OWN_WORDS: Final = 4
_NO_ANSWER: Final = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    " Make sure that the latest NVIDIA driver is installed and running.\n\n"
)
_TROUBLES: Final = {
    Trouble.MISMATCH: (
        18,
        f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {DRIVER_VERSION[:7]}\n",
    ),
    Trouble.NO_DRIVER: (9, _NO_ANSWER),
    Trouble.NO_DEVICES: (_NO_DEVICES, "No devices were found\n"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is asked; like the real one, what goes wrong as well goes to standard output."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    spec, scenario, state_dir, host = words[:_OWN_WORDS]
    server = open_server(spec, Path(scenario) if scenario else None, Path(state_dir) if state_dir else None, host)
    code, said = answer(server, words[_OWN_WORDS:])
    sys.stdout.buffer.write(said.encode("latin-1", "replace"))
    sys.stdout.buffer.flush()
    return code


def answer(server: SimulatedServer, arguments: Sequence[str]) -> tuple[int, str]:
    """Return exit code and output."""
    state = server.look()
    while state.trouble is Trouble.HANG:
        time.sleep(_HANG_STEP_S)
        state = server.look()
    if state.trouble is not None:
        return _TROUBLES[state.trouble]
    if not state.order:
        return _TROUBLES[Trouble.NO_DEVICES]
    lost = [number for number in state.order if number in state.lost]
    if lost:
        bus_id = state.gpus[lost[0]].card.pci_bus_id[4:]
        said = f"Unable to determine the device handle for GPU{bus_id}: GPU is lost.  Reboot the system to recover this GPU\n"
        return _LOST, said
    try:
        return 0, _asked(state, _options(arguments))
    except smi_query.BadQuery as error:
        return _WRONG_USAGE, f"{error}\n"


def _options(arguments: Sequence[str]) -> dict[str, str]:
    """Take the arguments apart: flags, and options with `=` or the next word."""
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("-i", "--id") and not equals:
            value = next(words, "")
        options[_LONG.get(name, name)] = value
    unknown = options.keys() - _KNOWN
    if unknown or not options.keys() - {"-i"}:
        wrong = ", ".join(sorted(unknown)) or "none"
        raise smi_query.BadQuery(
            f"Invalid combination of input arguments: {wrong}. The simulation knows {', '.join(sorted(_KNOWN))}."
        )
    return options


_LONG: Final = {"--id": "-i", "--query": "-q", "--xml-format": "-x", "--list-gpus": "-L"}
_KNOWN: Final = frozenset({"-i", "-q", "-x", "-L", "--query-gpu", "--query-compute-apps", "--format"})


def _asked(state: ServerState, options: dict[str, str]) -> str:
    cards = _chosen([Shown(index, state.gpus[number]) for index, number in enumerate(state.order)], options.get("-i"))
    when = time.strftime("%a %b %d %H:%M:%S %Y")
    form = options.get("--format", "")
    if "--query-gpu" in options:
        return smi_query.gpus(cards, options["--query-gpu"], form, DRIVER_VERSION, when)
    if "--query-compute-apps" in options:
        return smi_query.processes(cards, options["--query-compute-apps"], form)
    if "-L" in options:
        return "".join(_listed(shown) for shown in cards)
    if {"-x", "-q"} <= options.keys():
        return smi_xml.document(cards, DRIVER_VERSION, when)
    raise smi_query.BadQuery("Invalid combination of input arguments: the simulation prints -q with -x alone.")


def _chosen(cards: list[Shown], wanted: str | None) -> list[Shown]:
    """Keep the cards that `-i` names, by index, UUID or PCI bus id; all without it."""
    if wanted is None:
        return cards
    kept = []
    for word in wanted.split(","):
        found = [one for one in cards if word in (str(one.index), one.gpu.card.uuid, one.gpu.card.pci_bus_id)]
        if not found:
            raise smi_query.BadQuery(f"No devices were found: {word!r} is none of them.")
        kept += found
    return kept


def _listed(shown: Shown) -> str:
    lines = [f"GPU {shown.index}: {text.name(shown).value} (UUID: {text.uuid(shown).value})\n"]
    uuid = shown.gpu.card.uuid.removeprefix("GPU-")
    lines += [f"  MIG 1g.5gb      Device  {n}: (UUID: MIG-{n}{uuid[1:]})\n" for n in range(shown.gpu.mig_devices or 0)]
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
