"""Which build runs: every module as Python source, or those that a request passes through compiled to C by mypyc.

`docs/operate/compiled.md` tells how to make the second.
"""

from __future__ import annotations

from importlib.util import find_spec

_ONE_OF_THEM = "warmroute.gateway.relay"


def code() -> str:
    """`compiled` or `interpreted`."""
    spec = find_spec(_ONE_OF_THEM)
    is_source = spec is None or spec.origin is None or spec.origin.endswith(".py")
    return "interpreted" if is_source else "compiled"
