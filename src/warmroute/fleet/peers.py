"""A worker as the dialect of its engine needs to know it."""

from __future__ import annotations

from warmroute.engines.peer import Peer
from warmroute.fleet.instance import InstanceInfo


def peer_of(info: InstanceInfo, kv_connector: str | None = None) -> Peer:
    """What the registration or the operator told, and the KV connector that the engine's metrics tell."""
    return Peer(
        url=info.url,
        host=info.address.host,
        port=info.address.port,
        connector_port=info.connector_port,
        bootstrap_port=info.bootstrap_port,
        engine_worker_queue_port=info.engine_worker_queue_port,
        device_ids=info.device_ids,
        rdma_ports=info.rdma_ports,
        transfer_protocol=info.transfer_protocol,
        tp_size=info.ranks,
        version=info.version,
        kv_connector=kv_connector,
    )
