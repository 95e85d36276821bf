import threading
import time

import pytest

from tests.client.scripted import WAIT_S
from yarn_gpu_sched.client import LinkFullError
from yarn_gpu_sched.client.outbox import BATCH_CHANGES_MAX, Outbox, batches, numbered
from yarn_gpu_sched.protocol.v1 import link_pb2

MESSAGE_BYTES_MAX = 1024 * 1024


def removed(name: str) -> link_pb2.Change:
    return link_pb2.Change(server_removed=name)


def taken(outbox: Outbox) -> link_pb2.Batch:
    batch = outbox.take(0)
    assert batch is not None
    return batch


def names(batch: link_pb2.Batch | None) -> list[str]:
    assert batch is not None
    return [change.server_removed for change in batch.changes]


def test_a_snapshot_is_cut_into_messages_and_only_the_last_ends_it() -> None:
    changes = [removed(f"{number}-{'x' * 700}") for number in range(10_000)]
    made = list(batches(changes))
    assert [name for batch in made for name in names(batch)] == [change.server_removed for change in changes]
    assert [batch.snapshot_end for batch in made] == [False] * (len(made) - 1) + [True]
    assert all(batch.ByteSize() < MESSAGE_BYTES_MAX - 64 for batch in made)
    assert all(len(batch.changes) <= BATCH_CHANGES_MAX for batch in made)
    assert len(made) >= 7


def test_an_empty_snapshot_is_one_batch_that_ends_it() -> None:
    assert [batch.snapshot_end for batch in batches([])] == [True]


def test_a_change_that_no_message_holds_is_refused_with_its_kind() -> None:
    huge = removed("x" * MESSAGE_BYTES_MAX)
    with pytest.raises(ValueError, match="server_removed"):
        list(batches([huge]))
    with pytest.raises(ValueError, match="server_removed"):
        Outbox(10).put([huge])


def test_what_waits_goes_out_together_and_in_order() -> None:
    outbox = Outbox(100)
    outbox.put([removed("a"), removed("b")])
    outbox.put([removed("c")])
    assert names(outbox.take(0)) == ["a", "b", "c"]
    assert names(outbox.take(0)) == []


def test_a_message_never_holds_more_than_its_bounds() -> None:
    outbox = Outbox(100_000)
    outbox.put([removed(str(number)) for number in range(BATCH_CHANGES_MAX + 1)])
    assert len(taken(outbox).changes) == BATCH_CHANGES_MAX
    assert len(taken(outbox).changes) == 1
    outbox.put([removed("x" * 600_000), removed("y" * 600_000)])
    assert len(taken(outbox).changes) == 1
    assert len(taken(outbox).changes) == 1


def test_a_full_outbox_refuses_all_or_nothing() -> None:
    outbox = Outbox(3)
    outbox.put([removed("a"), removed("b")])
    with pytest.raises(LinkFullError, match="most are 3"):
        outbox.put([removed("c"), removed("d")])
    assert names(outbox.take(0)) == ["a", "b"]


def test_taking_wakes_up_when_something_comes() -> None:
    outbox = Outbox(10)
    threading.Timer(0.05, outbox.put, [[removed("a")]]).start()
    started_s = time.monotonic()
    assert names(outbox.take(WAIT_S)) == ["a"]
    assert time.monotonic() - started_s < WAIT_S / 2


def test_a_closed_outbox_hands_out_the_rest_and_then_ends() -> None:
    outbox = Outbox(10)
    outbox.put([removed("a")])
    outbox.close()
    outbox.put([removed("too late")])
    assert names(outbox.take(WAIT_S)) == ["a"]
    assert outbox.take(WAIT_S) is None


def test_messages_are_numbered_from_one_without_gaps() -> None:
    outbox = Outbox(10)
    outbox.put([removed("c")])
    outbox.close()
    messages = list(numbered(link_pb2.Register(epoch=3), [removed("a")], outbox, heartbeat_s=0.01))
    assert [message.sequence for message in messages] == [1, 2, 3]
    assert [message.WhichOneof("message") for message in messages] == ["register", "batch", "batch"]
    assert [message.batch.snapshot_end for message in messages] == [False, True, False]


def test_silence_is_filled_with_heartbeats() -> None:
    outbox = Outbox(10)
    stream = numbered(link_pb2.Register(), [], outbox, heartbeat_s=0.01)
    kinds = [next(stream).WhichOneof("message") for _ in range(4)]
    assert kinds == ["register", "batch", "heartbeat", "heartbeat"]
