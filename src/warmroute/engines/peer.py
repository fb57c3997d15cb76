"""One side of a prefill/decode pair, as a dialect needs to know it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Peer:
    """What was told of an engine, by its registration, by the operator or by its own endpoints. 0 and None: not told.

    `host` is a name or a literal address, IPv6 without brackets. `transfer_protocol` holds "ipc" and "rdma".
    `tp_size` is the number of tensor-parallel ranks: as told, else the number of device ids, at least 1.
    `bootstrap_port` is where an SGLang prefill engine meets decode engines (0: the default of SGLang),
    `connector_port` FastDeploy's counterpart. `kv_connector` is the name of vLLM's KV connector.
    """

    url: str
    host: str
    port: int
    connector_port: int = 0
    bootstrap_port: int = 0
    engine_worker_queue_port: int = 0
    device_ids: tuple[str, ...] = ()
    rdma_ports: tuple[str, ...] = ()
    transfer_protocol: tuple[str, ...] = ()
    tp_size: int = 1
    version: str | None = None
    kv_connector: str | None = None
