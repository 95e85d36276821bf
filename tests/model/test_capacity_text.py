"""What queues have, in YARN's words (C8)."""

import pytest

from yarn_gpu_sched.model.capacity_text import Amount, Capacity, CapacityError, Measure, read_capacity, read_maximum


def absolute(value: int) -> Amount:
    return Amount(Measure.ABSOLUTE, value)


def percent(value: float) -> Amount:
    return Amount(Measure.PERCENT, value)


def weight(value: float) -> Amount:
    return Amount(Measure.WEIGHT, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("40", Capacity(percent(40), percent(40), percent(40))),
        (" 12.5 ", Capacity(percent(12.5), percent(12.5), percent(12.5))),
        ("4w", Capacity(weight(4), weight(4), weight(4))),
        ("[memory=0,vcores=0]", Capacity(None, absolute(0), absolute(0))),
        ("[yarn.io/gpu=8]", Capacity(absolute(8))),
        ("[ memory = 2048 , vcores = 2 , yarn.io/gpu = 4 ]", Capacity(absolute(4), absolute(2048), absolute(2))),
        ("[memory=50%,vcores=2w,yarn.io/gpu=1]", Capacity(absolute(1), percent(50), weight(2))),
        ("[memory=4Gi,yarn.io/gpu=0]", Capacity(absolute(0), absolute(4096))),
        ("[memory-mb=1024Mi]", Capacity(None, absolute(1024))),
        ("[fpga=3]", Capacity()),
    ],
)
def test_what_can_be_read(text: str, expected: Capacity) -> None:
    assert read_capacity(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[memory=4Gi,yarn.io/gpu=1.5]", 'yarn.io/gpu "1.5" is not whole'),
        ("[memory=1024,YARN.IO/GPU=2]", '"YARN.IO/GPU" is unknown, "yarn.io/gpu" would be right'),
        ("[yarn.io/gpu=8", "a closing bracket is missing"),
        ("[yarn.io/gpu]", "says no amount"),
        ("[yarn.io/gpu=8,yarn.io/gpu=9]", "is there twice"),
        ("[memory=4Xi]", 'memory "4Xi" cannot be read'),
        ("[yarn.io/gpu=-1]", "cannot be read"),
        ("[yarn.io/gpu=٣]", "cannot be read"),
        ("[memory=999999999999999Pi]", "is more than"),
        ("nan", "cannot be read"),
        ("", "cannot be read"),
        ("\x1b[31m", "?[31m"),
    ],
)
def test_what_cannot_be_read_is_named_and_never_taken_for_nothing(text: str, said: str) -> None:
    with pytest.raises(CapacityError) as caught:
        read_capacity(text)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["3w", "[yarn.io/gpu=2w]", "[memory=1024,vcores=1w]"])
def test_a_maximum_is_no_weight(text: str) -> None:
    with pytest.raises(CapacityError, match=r"a maximum cannot be a weight, an amount or a percentage"):
        read_maximum(text)
    assert read_maximum("[yarn.io/gpu=2]") == read_capacity("[yarn.io/gpu=2]")
