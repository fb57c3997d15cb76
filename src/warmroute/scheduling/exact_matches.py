"""How exact and approximate knowledge are put together into one figure per worker, in the engine's tokens.

What the events of a worker tell counts, if they tell all; where they are silent or began late, what is believed. Events
come when a block is computed: of equal prompts in one burst, all but the first would find nothing. So a prompt that is
on its way to a worker counts there as well, as far as the approximate index knows it.
"""

from __future__ import annotations

from warmroute.prompts.prompt import Prompt
from warmroute.prompts.token_blocks import TokenBlocks
from warmroute.scheduling.exact_index import Coverage, ExactIndex
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.worker import Worker


def exact_matches(prompt: Prompt, blocks: TokenBlocks, exact: ExactIndex, index: PrefixIndex) -> dict[Worker, int]:
    """Matched tokens of each worker that holds, or will hold, a part of this prompt."""
    matched = exact.match(blocks, prompt.model)
    if not prompt.fingerprint:
        return matched
    believed = index.match(prompt.fingerprint)
    estimated = blocks.estimated_tokens or blocks.tokens
    for worker, tokens in believed.items():
        if exact.coverage(worker) is Coverage.COMPLETE:
            tokens = index.on_its_way(worker, prompt.fingerprint) if index.has_pending else 0
        tokens = tokens * blocks.tokens // estimated
        if tokens > matched.get(worker, 0):
            matched[worker] = tokens
    return matched
