"""Read a page of engine metrics in whichever dialect it is written."""

from __future__ import annotations

from warmroute.engines.fastdeploy import FASTDEPLOY
from warmroute.engines.sglang import SGLANG
from warmroute.engines.vitals import Dialect, Vitals
from warmroute.engines.vllm import VLLM

_DIALECTS: tuple[Dialect, ...] = (FASTDEPLOY, VLLM, SGLANG)


def read_metrics(page: bytes) -> Vitals | None:
    """What the page tells, or None when it is in no known dialect. Never raises, whatever the bytes.

    A dialect is recognised by the family names that occur, not by configuration.
    """
    for dialect in _DIALECTS:
        if page.startswith(dialect.prefix) or b"\n" + dialect.prefix in page:
            return dialect.read(page)
    return None
