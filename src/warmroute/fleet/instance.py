"""What an engine says of itself, in `POST /register` or as an entry of the static file.

Field forms and error texts are those of FastDeploy's router: ports and ids are numbers or strings, the role is a word
or 0, 1, 2. Beyond that router, hosts may be names and IPv6, and lists may be comma-separated strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from warmroute.fleet.address import Address, parse_host, url_host
from warmroute.fleet.errors import InvalidInstance
from warmroute.scheduling.worker import Role

_ROLES: dict[str, Role] = {"mixed": "mixed", "prefill": "prefill", "decode": "decode"}
_ROLE_NUMBERS: tuple[Role, ...] = ("mixed", "prefill", "decode")
_PROTOCOLS = ("ipc", "rdma")
_MAX_ITEMS = 4096


@dataclass(frozen=True, slots=True)
class InstanceInfo:
    """One engine endpoint. Ports that were not given are 0, except `metrics_port`, which defaults to the port.

    `version` is that of the model's weights. `registers` is true when the engine itself sent this, which only
    FastDeploy's do.
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

    @classmethod
    def at(cls, address: Address, role: Role, pd_port: int = 0) -> InstanceInfo:
        """An instance of which only the address is known, and the one port that its pairs need, whatever its name."""
        return cls(role, address, metrics_port=address.port, connector_port=pd_port, bootstrap_port=pd_port)

    def completed(self, earlier: InstanceInfo) -> InstanceInfo:
        """The same, with the ports that were told before and are not now."""
        return replace(
            self,
            connector_port=self.connector_port or earlier.connector_port,
            bootstrap_port=self.bootstrap_port or earlier.bootstrap_port,
        )

    @property
    def id(self) -> str:
        """`host:port`."""
        return self.address.id

    @property
    def url(self) -> str:
        """`http://host:port`."""
        return self.address.url

    @property
    def ranks(self) -> int:
        """Tensor-parallel ranks: as told, else one for each device."""
        return self.tp_size or max(1, len(self.device_ids))

    @property
    def metrics_url(self) -> str:
        """Where the engine's metrics are."""
        return f"http://{url_host(self.address.host)}:{self.metrics_port}/metrics"


def read_instance(fields: object) -> InstanceInfo:
    """Check decoded JSON or YAML. Raises InvalidInstance with the contract's text; unknown fields are ignored."""
    if not isinstance(fields, Mapping):
        raise _bad_json("expected an object")
    role = _role(fields.get("role"))
    address = Address(_host(fields.get("host_ip")), _required_port(fields.get("port")))
    transfer_protocol = tuple(item.lower() for item in _texts(fields, "transfer_protocol"))
    for protocol in transfer_protocol:
        if protocol not in _PROTOCOLS:
            raise _bad_value(f"invalid protocol: {_shown(protocol)}")
    paired = role != "mixed"
    rdma_ports = _texts(fields, "rdma_ports")
    for position, text in enumerate(rdma_ports if paired else ()):
        if _port_number(text) is None:
            raise _bad_value(f"rdma_ports[{position}] invalid port: {_shown(text)}")
    return InstanceInfo(
        role,
        address,
        metrics_port=_optional_port(fields, "metrics_port", checked=True) or address.port,
        connector_port=_optional_port(fields, "connector_port", checked=paired),
        bootstrap_port=_optional_port(fields, "bootstrap_port", checked=paired),
        engine_worker_queue_port=_optional_port(fields, "engine_worker_queue_port", checked=paired),
        transfer_protocol=transfer_protocol,
        rdma_ports=rdma_ports,
        device_ids=_texts(fields, "device_ids"),
        tp_size=_tp_size(fields.get("tp_size")),
        is_paused=_flag(fields, "is_paused"),
        version=_version(fields.get("version")),
    )


def check_role(role: Role, *, splitwise: bool) -> None:
    """Raise InvalidInstance when a router in this mode has no use for the role."""
    if splitwise and role == "mixed":
        raise InvalidInstance("splitwise mode only supports PREFILL/DECODE instances")
    if not splitwise and role != "mixed":
        raise InvalidInstance("only MIXED instances are allowed")


def _role(value: object) -> Role:
    if value is None or value == "":
        raise _bad_value("role is required")
    if isinstance(value, str):
        role = _ROLES.get(value.strip().lower())
        if role is None:
            raise _bad_value(f"invalid role: {_shown(value)}")
        return role
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad_json("role must be a string or an integer")
    if not 0 <= value < len(_ROLE_NUMBERS):
        raise _bad_json(f"invalid role number {_shown(value)}")
    return _ROLE_NUMBERS[value]


def _host(value: object) -> str:
    if value is None or value == "":
        raise _bad_value("host_ip is required")
    if not isinstance(value, str):
        raise _bad_json("host_ip must be a string")
    try:
        return parse_host(value.strip())
    except ValueError:
        raise _bad_value(f"invalid host_ip: {_shown(value)}") from None


def _required_port(value: object) -> int:
    if value is None or value == "":
        raise _bad_value("port is required")
    number = _port_number(_number_or_text(value, "port"))
    if number is None:
        raise _bad_value(f"invalid port: {_shown(value)}")
    return number


def _optional_port(fields: Mapping[str, object], key: str, *, checked: bool) -> int:
    value = fields.get(key)
    if value is None or value in ("", 0, "0"):
        return 0
    number = _port_number(_number_or_text(value, key))
    if number is None and checked:
        raise _bad_value(f"invalid {key}: {_shown(value)}")
    return number or 0


def _port_number(value: int | str) -> int | None:
    text = str(value).strip() if isinstance(value, str) or abs(value) < 1 << 32 else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        return None
    number = int(text)
    return number if 1 <= number <= 65535 else None


def _texts(fields: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = fields.get(key)
    if value is None:
        return ()
    if isinstance(value, str):
        value = [part for part in (piece.strip() for piece in value.split(",")) if part]
    if not isinstance(value, list) or len(value) > _MAX_ITEMS:
        raise _bad_json(f"{key} must be a list of at most {_MAX_ITEMS} items")
    return tuple(_shown(_number_or_text(item, f"{key} items")).strip() for item in value)


def _tp_size(value: object) -> int | None:
    if value is None or value == "":
        return None
    text = _shown(_number_or_text(value, "tp_size")).strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise _bad_value(f"invalid tp_size: {text}")
    return int(text)


def _version(value: object) -> str | None:
    """Whatever tells one version from another; a container cannot."""
    return _shown(value) if isinstance(value, str | int | float) and value != "" else None


def _flag(fields: Mapping[str, object], key: str) -> bool:
    value = fields.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _bad_json(f"{key} must be true or false")


def _number_or_text(value: object, what: str) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _bad_json(f"{what} must be a number or a string")
    return value


def _shown(value: object) -> str:
    """A value as it may stand in an answer: never longer than 100 characters."""
    if isinstance(value, int) and value.bit_length() > 256:
        return "a huge number"
    return str(value)[:100]


def _bad_json(detail: str) -> InvalidInstance:
    return InvalidInstance(f"Invalid InstanceInfo JSON format: {detail}")


def _bad_value(detail: str) -> InvalidInstance:
    return InvalidInstance(f"invalid InstanceInfo format:{detail}")
