"""Where the containers of a gang may go, where not any server of the partition will do."""

from typing import NamedTuple

from yarn_gpu_sched.model.server_use import ServerUse
from yarn_gpu_sched.placement.pack import UNLIMITED


class Reach(NamedTuple):
    """Places by name: servers' ids, hosts, and racks, which begin with a slash.

    ``places`` with how many containers are wanted at each: if ``strict``, nowhere else and no more than these there; else they are
    preferred. At ``excluded`` ones none may be.
    """

    places: tuple[tuple[str, int], ...] = ()
    strict: bool = False
    excluded: tuple[str, ...] = ()

    def admits(self, use: ServerUse) -> bool:
        """Tell whether a container may be on a server."""
        if any(place in self.excluded for place in names_of(use)):
            return False
        return not self.strict or any(place in names_of(use) for place, _ in self.places)

    def most(self, use: ServerUse) -> int:
        """Give the most containers that may be on a server that it admits."""
        if not self.strict:
            return UNLIMITED
        return max(count for place, count in self.places if place in names_of(use))

    def keeps(self, counts: dict[ServerUse, int]) -> bool:
        """Tell whether so many containers on these servers are no more than are wanted at any place."""
        return not self.strict or all(
            sum(containers for use, containers in counts.items() if place in names_of(use)) <= count
            for place, count in self.places
        )


def names_of(use: ServerUse) -> tuple[str, str, str]:
    """Give the names by which a server may be meant."""
    return (use.server_id, use.server.host, use.server.rack)
