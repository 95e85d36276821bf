"""Pending container requests of a job."""

import msgspec

from yarn_gpu_sched.model.resource import Resource


class RequestKey(msgspec.Struct, frozen=True, gc=False, order=True):
    """What tells one ask of a job from another (Hadoop: ``SchedulerRequestKey``)."""

    priority: int = 0
    allocation_request_id: int = 0


class PlaceAsk(msgspec.Struct, frozen=True, gc=False, order=True):
    """``count`` containers of an ask are wanted at ``place``: a host, or a rack (``/rack-a``)."""

    place: str
    count: int

    @property
    def is_rack(self) -> bool:
        """Whether the place is a rack."""
        return self.place.startswith("/")


class Ask(msgspec.Struct, frozen=True, gc=False):
    """``count`` containers still wanted, each of ``resource``. Absolute, never a delta.

    ``places`` are hosts and racks that it names: no others will do if it is ``strict``, else they are preferred.
    """

    key: RequestKey
    count: int
    resource: Resource
    application_master: bool = False
    partition: str = ""
    places: tuple[PlaceAsk, ...] = ()
    strict: bool = False

    def with_count(self, count: int) -> "Ask":
        """Give the same ask for another number of containers."""
        return Ask(self.key, count, self.resource, self.application_master, self.partition, self.places, self.strict)
