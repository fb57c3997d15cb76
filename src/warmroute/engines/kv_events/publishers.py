"""Where an engine publishes its KV events, and which side of that address listens.

vLLM tells it at `/kv_event_sources`: {"RANK": {"endpoint", "replay_endpoint", ...}}, the addresses being those of that
rank already. In what operators write, as in the engines' own configuration, rank r is r ports further.

The rule of vLLM and SGLang: a publisher listens if its endpoint has `*` or `::` in it, or is ipc or inproc; else it
connects, and whoever wants the events must listen there. SGLang listens at `0.0.0.0` too, where vLLM would connect to
itself. Replays are always listened for by the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

_MOST_RANKS = 1024


@dataclass(frozen=True, slots=True)
class Publisher:
    """The publisher of one data-parallel rank. `address` is where to connect to, or to listen at if `we_listen`.

    `replay` is where missed batches can be asked for, "" for nowhere.
    """

    rank: int
    address: str
    we_listen: bool = False
    replay: str = ""


class _Told(msgspec.Struct):
    endpoint: str | None = None
    replay_endpoint: str | None = None
    enable_kv_cache_events: bool = True
    publisher: str | None = "zmq"


_decoder = msgspec.json.Decoder(dict[str, _Told])


def read_sources(page: bytes, host: str) -> list[Publisher] | None:
    """What `/kv_event_sources` of an engine on `host` tells; None if that cannot be read."""
    try:
        told = _decoder.decode(page)
        ranks = {int(rank): one for rank, one in told.items()}
    except (msgspec.MsgspecError, ValueError):
        return None
    return [
        publisher_at(rank, one.endpoint, one.replay_endpoint or "", host)
        for rank, one in sorted(ranks.items())[:_MOST_RANKS]
        if one.endpoint and one.enable_kv_cache_events and one.publisher == "zmq"
    ]


def configured(endpoint: str, replay: str, ranks: int, host: str) -> list[Publisher]:
    """The publishers of an engine on `host` with this configuration. ValueError for an address without a port."""
    endpoint = endpoint.replace("//0.0.0.0:", "//*:")
    return [
        publisher_at(rank, _of_rank(endpoint, rank), _of_rank(replay, rank) if replay else "", host)
        for rank in range(ranks)
    ]


def publisher_at(rank: int, endpoint: str, replay: str, host: str) -> Publisher:
    """A publisher by its own addresses."""
    engine_listens = "*" in endpoint or "::" in endpoint or endpoint.startswith(("ipc://", "inproc://"))
    address = _seen_from_here(endpoint, host) if engine_listens else endpoint
    return Publisher(rank, address, not engine_listens, _seen_from_here(replay, host) if replay else "")


def _seen_from_here(endpoint: str, host: str) -> str:
    """Any address of the engine's machine becomes the one that its requests are sent to."""
    literal = f"[{host}]" if ":" in host else host
    for wildcard in ("//*:", "//0.0.0.0:", "//[::]:"):
        endpoint = endpoint.replace(wildcard, f"//{literal}:")
    return endpoint


def _of_rank(endpoint: str, rank: int) -> str:
    if not endpoint.startswith("tcp://"):
        return endpoint if not rank else f"{endpoint}_dp{rank}"
    base, _, port = endpoint.rpartition(":")
    return f"{base}:{int(port) + rank}"
