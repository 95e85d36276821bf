"""Where a gang may go: the free-GPU index and the search over it.

1. `FreeIndex` follows the cluster's state by `add`, `remove` and `update`; `find` reads it. Nothing here changes the state.
2. A search is exact for gangs whose containers are all alike: it finds a place if there is one, at the tightest level.
3. Equal states give equal placements: ties go by the order of domain and server ids.
4. Nothing here knows quotas, tenants, jobs or time.
"""

from yarn_gpu_sched.placement.confined import find_confined
from yarn_gpu_sched.placement.free_index import FreeIndex
from yarn_gpu_sched.placement.kind import Kind
from yarn_gpu_sched.placement.partition import TOUCHED_MAX
from yarn_gpu_sched.placement.placement import Placement, Portion
from yarn_gpu_sched.placement.reach import Reach

__all__ = ["TOUCHED_MAX", "FreeIndex", "Kind", "Placement", "Portion", "Reach", "find_confined"]
