"""Cases of GPU order: what CUDA makes of the environment that a container gets.

CUDA itself needs hardware; `shown` is its documented rule: devices in the order of CUDA_DEVICE_ORDER (FASTEST_FIRST by default),
of which CUDA_VISIBLE_DEVICES picks by place in that order or by UUID, up to the first that is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.embedded.container_bash import deliver, run
from yarn_gpu_sched.binding import Binding, render


@dataclass(frozen=True)
class Card:
    uuid: str
    bus: str
    minor: int
    speed: int


# In the order of nvidia-smi, which is that of the bus: a small display card first, minors 3, 0, 1, 2, 4.
DISPLAY = Card("GPU-00000000-display", "00000000:01:00.0", 3, 1)
SERVER = (
    DISPLAY,
    Card("GPU-aaaaaaaa-1", "00000000:21:00.0", 0, 100),
    Card("GPU-bbbbbbbb-2", "00000000:41:00.0", 1, 100),
    Card("GPU-cccccccc-3", "00000000:61:00.0", 2, 100),
    Card("GPU-dddddddd-4", "00000000:81:00.0", 4, 100),
)


def shown(environment: Mapping[str, str]) -> list[Card]:
    fastest = environment.get("CUDA_DEVICE_ORDER", "FASTEST_FIRST") == "FASTEST_FIRST"
    order = sorted(SERVER, key=lambda card: (-card.speed if fastest else 0, card.bus))
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return order
    by_name = {str(place): card for place, card in enumerate(order)} | {card.uuid: card for card in order}
    found = []
    for name in named.split(","):
        if name not in by_name:
            break
        found.append(by_name[name])
    return found


def bound(folder: Path, gpus: tuple[str, ...]) -> dict[str, str]:
    deliver(folder, render(Binding(gpus)))
    done = run(folder, "env")
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("card", SERVER[1:], ids=lambda card: card.uuid)
def test_c21_environment_alone_selects_the_right_card_though_cudas_order_differs(tmp_path: Path, card: Card) -> None:
    index = SERVER.index(card)
    assert shown(bound(tmp_path, (card.uuid,))) == [card]
    by_index = bound(tmp_path, (str(index),))
    assert shown(by_index) == [card]
    # Without the order the same index is another card, and with the minor as the index too: the case is a case.
    assert shown({"CUDA_VISIBLE_DEVICES": by_index["CUDA_VISIBLE_DEVICES"]}) != [card]
    assert card.minor == index or shown(by_index | {"CUDA_VISIBLE_DEVICES": str(card.minor)}) != [card]


def test_c21_several_cards_keep_their_order_and_the_display_card_stays_out(tmp_path: Path) -> None:
    cards = [SERVER[3], SERVER[1]]
    assert shown(bound(tmp_path, tuple(card.uuid for card in cards))) == cards
    assert shown(bound(tmp_path, ("3", "1"))) == cards
    assert shown(bound(tmp_path, ())) == []
    assert DISPLAY in shown({})
