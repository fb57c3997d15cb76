"""Which dialect an engine speaks: by the families of its metrics, else by who it says owns its models.

An engine whose metrics are switched off (SGLang's default) still lists its models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from warmroute.engines.dialect import Dialect
from warmroute.engines.dialects.fastdeploy import FASTDEPLOY
from warmroute.engines.dialects.sglang import SGLANG
from warmroute.engines.dialects.vllm import VLLM_NIXL
from warmroute.engines.vitals import Vitals

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {dialect.name: dialect for dialect in (FASTDEPLOY, SGLANG, VLLM_NIXL)}
)
"""Every dialect by its name, as in `--engine`."""


def recognise(vitals: Vitals | None, owners: Iterable[object] = ()) -> Dialect | None:
    """The dialect of an engine with these metrics and these `owned_by` of its `/v1/models`; None when unknown."""
    if vitals is not None:
        return DIALECTS.get(vitals.dialect)
    names = (owner.lower() for owner in owners if isinstance(owner, str))
    return next((DIALECTS[name] for name in names if name in DIALECTS), None)
