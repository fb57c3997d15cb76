"""What an engine says of itself, in `POST /register` or as an entry of the static file.

Field forms and error texts are those of FastDeploy's router: ports and ids are numbers or strings, the role is a word
or 0, 1, 2. Beyond that router, hosts may be names and IPv6, and lists may be comma-separated strings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from warmroute.fleet.address import Address, url_host
from warmroute.fleet.errors import InvalidInstance
from warmroute.fleet.instance_fields import (
    bad_json,
    read_flag,
    read_host,
    read_optional_port,
    read_port,
    read_protocols,
    read_rdma_ports,
    read_role,
    read_texts,
    read_tp_size,
    read_version,
)
from warmroute.scheduling.worker import Role

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class InstanceInfo:
    """One engine endpoint. Ports that were not given are 0, except `metrics_port`, which defaults to the port.

    `version` is that of the model's weights, `incarnation` whatever the engine calls its process. `registers` is true
    when the engine itself sent this, which only FastDeploy's do.
    """

    role: Role
    address: Address
    metrics_port: int
    connector_port: int = 0
    bootstrap_port: int = 0
    engine_worker_queue_port: int = 0
    transfer_protocol: tuple[str, ...] = ()
    rdma_ports: tuple[str, ...] = ()
    device_ids: tuple[str, ...] = ()
    tp_size: int | None = None
    is_paused: bool = False
    version: str | None = None
    registers: bool = False
    incarnation: str | None = None

    @classmethod
    def at(cls, address: Address, role: Role, pd_port: int = 0) -> InstanceInfo:
        """An instance of which only the address is known, and the one port that its pairs need, whatever its name."""
        return cls(role, address, metrics_port=address.port, connector_port=pd_port, bootstrap_port=pd_port)

    def is_other_process(self, earlier: InstanceInfo) -> bool:
        """Whether an engine that registered before has now told what one process of it cannot tell."""
        if not (self.registers and earlier.registers):
            return False
        told = replace(
            self, role=earlier.role, is_paused=earlier.is_paused, version=earlier.version, transfer_protocol=()
        )
        return told != replace(earlier, transfer_protocol=())

    def completed(self, earlier: InstanceInfo) -> InstanceInfo:
        """The same, with the scheme, which no engine tells, and the ports that were told before and are not now."""
        return replace(
            self,
            address=earlier.address,
            connector_port=self.connector_port or earlier.connector_port,
            bootstrap_port=self.bootstrap_port or earlier.bootstrap_port,
        )

    @property
    def id(self) -> str:
        """`host:port`."""
        return self.address.id

    @property
    def url(self) -> str:
        """`http://host:port`, or with https."""
        return self.address.url

    @property
    def ranks(self) -> int:
        """Tensor-parallel ranks: as told, else one for each device."""
        return self.tp_size or max(1, len(self.device_ids))

    @property
    def metrics_url(self) -> str:
        """Where the engine's metrics are."""
        return f"{self.address.scheme}://{url_host(self.address.host)}:{self.metrics_port}/metrics"


FIELDS = (
    "role",
    "host_ip",
    "port",
    "connector_port",
    "bootstrap_port",
    "engine_worker_queue_port",
    "transfer_protocol",
    "rdma_ports",
    "device_ids",
    "metrics_port",
    "tp_size",
    "is_paused",
    "version",
    "incarnation",
    "connected_decodes",
)
"""All that FastDeploy's engines tell, the last of which is not read, with `bootstrap_port` and `incarnation`."""


def read_instance(fields: object) -> InstanceInfo:
    """Check decoded JSON or YAML. Raises InvalidInstance with the contract's text; unknown fields are ignored."""
    info, errors = examine_instance(fields)
    if info is None:
        raise errors[0]
    return info


def examine_instance(fields: object) -> tuple[InstanceInfo | None, list[InvalidInstance]]:
    """The same with every error there is, in the contract's order, and no InstanceInfo if there is one."""
    if not isinstance(fields, Mapping):
        return None, [bad_json("expected an object")]
    errors: list[InvalidInstance] = []

    def tried(read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except InvalidInstance as error:
            errors.append(error)
            return otherwise

    mixed: Role = "mixed"
    none: tuple[str, ...] = ()
    role = tried(lambda: read_role(fields.get("role")), mixed)
    host = tried(lambda: read_host(fields.get("host_ip")), "")
    port = tried(lambda: read_port(fields.get("port")), 0)
    transfer_protocol = tried(lambda: read_protocols(fields), none)
    paired = role != mixed
    rdma_ports = tried(lambda: read_rdma_ports(fields, checked=paired), none)

    def optional_port(key: str, *, checked: bool = paired) -> int:
        return tried(lambda: read_optional_port(fields, key, checked=checked), 0)

    info = InstanceInfo(
        role,
        Address(host, port),
        metrics_port=optional_port("metrics_port", checked=True) or port,
        connector_port=optional_port("connector_port"),
        bootstrap_port=optional_port("bootstrap_port"),
        engine_worker_queue_port=optional_port("engine_worker_queue_port"),
        transfer_protocol=transfer_protocol,
        rdma_ports=rdma_ports,
        device_ids=tried(lambda: read_texts(fields, "device_ids"), none),
        tp_size=tried(lambda: read_tp_size(fields.get("tp_size")), None),
        is_paused=tried(lambda: read_flag(fields, "is_paused"), False),
        version=read_version(fields.get("version")),
        incarnation=read_version(fields.get("incarnation")),
    )
    return (None, errors) if errors else (info, errors)


def check_role(role: Role, *, splitwise: bool) -> None:
    """Raise InvalidInstance when a router in this mode has no use for the role."""
    if splitwise and role == "mixed":
        raise InvalidInstance("splitwise mode only supports PREFILL/DECODE instances")
    if not splitwise and role != "mixed":
        raise InvalidInstance("only MIXED instances are allowed")
