"""A resource manager in memory: for integrators' tests, and for ours."""

from yarn_gpu_sched.client.fake.resource_manager import FakeResourceManager

__all__ = ["FakeResourceManager"]
