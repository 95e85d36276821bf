"""Serves `ClusterService`: reads the engine, changes nothing."""

from yarn_gpu_sched.protocol.convert import (
    cluster_message,
    server_view_message,
    virtual_cluster_use_message,
)
from yarn_gpu_sched.protocol.v1 import cluster_pb2
from yarn_gpu_sched.service.clock import Clock
from yarn_gpu_sched.service.driver import Driver
from yarn_gpu_sched.service.introducing import introduce
from yarn_gpu_sched.service.pages import fill_page, page_after, page_size


class Cluster:
    """`ClusterService`."""

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._engine = driver.engine
        self._clock = clock

    async def get_cluster(self, _request: cluster_pb2.GetClusterRequest) -> cluster_pb2.GetClusterResponse:
        """Get totals, the state of the link, what is kept for gangs that have waited too long, and who speaks here."""
        message = cluster_message(self._engine.cluster(), self._engine.reservations(), self._clock.now_s())
        introduce(message, self._driver.session)
        return message

    async def list_servers(self, request: cluster_pb2.ListServersRequest) -> cluster_pb2.ListServersResponse:
        """List servers in order of their ids."""
        size = page_size(request.page_size)
        views, total = self._engine.servers(after=page_after(request.page_token), limit=size + 1)
        rows, token = fill_page(views, size, server_view_message, lambda view: view.server.server_id)
        return cluster_pb2.ListServersResponse(servers=rows, next_page_token=token, total_size=total)

    async def list_virtual_clusters(
        self, request: cluster_pb2.ListVirtualClustersRequest
    ) -> cluster_pb2.ListVirtualClustersResponse:
        """List virtual clusters in order of their paths."""
        size = page_size(request.page_size)
        views, total = self._engine.virtual_clusters(after=page_after(request.page_token), limit=size + 1)
        rows, token = fill_page(views, size, virtual_cluster_use_message, lambda view: view.virtual_cluster.path)
        return cluster_pb2.ListVirtualClustersResponse(virtual_clusters=rows, next_page_token=token, total_size=total)
