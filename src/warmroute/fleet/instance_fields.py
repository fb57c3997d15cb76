"""How each field of an InstanceInfo is read: the forms and the error texts of FastDeploy's router.

Every function raises InvalidInstance for what it cannot take.
"""

from __future__ import annotations

from collections.abc import Mapping

from warmroute.fleet.address import parse_host
from warmroute.fleet.errors import InvalidInstance
from warmroute.scheduling.worker import ROLES, Role

_PROTOCOLS = ("ipc", "rdma")
_MAX_ITEMS = 4096


def role_named(word: str) -> Role | None:
    """The role of this name, in any case; None for another word."""
    return next((role for role in ROLES if role == word.strip().lower()), None)


def read_role(value: object) -> Role:
    """The role: a word in any case, or 0, 1, 2."""
    if value is None or value == "":
        raise _bad_value("role is required")
    if isinstance(value, str):
        role = role_named(value)
        if role is None:
            raise _bad_value(f"invalid role: {_shown(value)}")
        return role
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad_json("role must be a string or an integer")
    if not 0 <= value < len(ROLES):
        raise bad_json(f"invalid role number {_shown(value)}")
    return ROLES[value]


def read_host(value: object) -> str:
    """The host in its one spelling."""
    if value is None or value == "":
        raise _bad_value("host_ip is required")
    if not isinstance(value, str):
        raise bad_json("host_ip must be a string")
    try:
        return parse_host(value.strip())
    except ValueError:
        raise _bad_value(f"invalid host_ip: {_shown(value)}") from None


def read_protocols(fields: Mapping[str, object]) -> tuple[str, ...]:
    """What KV caches travel by, in lower case."""
    protocols = tuple(item.lower() for item in read_texts(fields, "transfer_protocol"))
    for protocol in protocols:
        if protocol not in _PROTOCOLS:
            raise _bad_value(f"invalid protocol: {_shown(protocol)}")
    return protocols


def read_rdma_ports(fields: Mapping[str, object], *, checked: bool) -> tuple[str, ...]:
    """Ports as texts; `checked` for workers that need them."""
    ports = read_texts(fields, "rdma_ports")
    for position, text in enumerate(ports if checked else ()):
        if _port_number(text) is None:
            raise _bad_value(f"rdma_ports[{position}] invalid port: {_shown(text)}")
    return ports


def read_port(value: object) -> int:
    """The port of the API."""
    if value is None or value == "":
        raise _bad_value("port is required")
    number = _port_number(_number_or_text(value, "port"))
    if number is None:
        raise _bad_value(f"invalid port: {_shown(value)}")
    return number


def read_optional_port(fields: Mapping[str, object], key: str, *, checked: bool) -> int:
    """A port, 0 when none was given; one that is none counts as not given unless it is `checked`."""
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


def read_texts(fields: Mapping[str, object], key: str) -> tuple[str, ...]:
    """A list, or a text with commas."""
    value = fields.get(key)
    if value is None:
        return ()
    if isinstance(value, str):
        value = [part for part in (piece.strip() for piece in value.split(",")) if part]
    if not isinstance(value, list) or len(value) > _MAX_ITEMS:
        raise bad_json(f"{key} must be a list of at most {_MAX_ITEMS} items")
    return tuple(_shown(_number_or_text(item, f"{key} items")).strip() for item in value)


def read_tp_size(value: object) -> int | None:
    """Tensor-parallel ranks, None when not told."""
    if value is None or value == "":
        return None
    text = _shown(_number_or_text(value, "tp_size")).strip()
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise _bad_value(f"invalid tp_size: {text}")
    return int(text)


def read_version(value: object) -> str | None:
    """Whatever tells one version from another; a container cannot."""
    return _shown(value) if isinstance(value, str | int | float) and value != "" else None


def read_flag(fields: Mapping[str, object], key: str) -> bool:
    """True or false; false when not told."""
    value = fields.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise bad_json(f"{key} must be true or false")


def _number_or_text(value: object, what: str) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise bad_json(f"{what} must be a number or a string")
    return value


def _shown(value: object) -> str:
    """A value as it may stand in an answer: never longer than 100 characters."""
    if isinstance(value, int) and value.bit_length() > 256:
        return "a huge number"
    return str(value)[:100]


def bad_json(detail: str) -> InvalidInstance:
    """The error for a value of a kind that no field takes."""
    return InvalidInstance(f"Invalid InstanceInfo JSON format: {detail}")


def _bad_value(detail: str) -> InvalidInstance:
    return InvalidInstance(f"invalid InstanceInfo format:{detail}")
