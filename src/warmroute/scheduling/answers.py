"""What an engine says it had cached of a prompt, held against what it was believed to have."""

from __future__ import annotations

from math import inf

from warmroute.scheduling.exact_index import Coverage, ExactIndex
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.prefix_index import PrefixIndex

TOLERATED_TOKENS = 256
TOLERATED_SHARE = 0.25
"""The larger of the two may be missing: bytes are no tokens, templates add some, and engines cache whole blocks."""


def learn(
    lease: Lease, prompt_tokens: int, cached_tokens: int, index: PrefixIndex, exact: ExactIndex | None = None
) -> int:
    """Correct the indexes by what the answer to a lease's request said, in the engine's tokens.

    Returns how many tokens the worker was believed to hold, in the engine's tokens as well. A prompt that was matched
    with one still on its way proves nothing, for that one may not have been computed yet.
    """
    if not lease.matched_tokens:
        return 0
    believed = lease.matched_tokens * prompt_tokens // lease.prompt.tokens
    if exact is not None and lease.prompt.blocks is not None and exact.coverage(lease.worker) is Coverage.COMPLETE:
        if lease.last_used != -inf:
            exact.judge(lease.worker, lease.prompt, believed, cached_tokens)
        return believed
    if cached_tokens >= believed - max(TOLERATED_TOKENS, TOLERATED_SHARE * believed):
        index.bear_out(lease.worker)
    elif -inf < lease.last_used < inf:
        index.disprove(lease.worker, lease.last_used)
    return believed
