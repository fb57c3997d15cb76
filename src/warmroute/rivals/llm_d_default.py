"""llm_d_default: three scores from 0 to 1, weighted (llm-d-router, default profile).

    total = 2 x (max queue - queue) / (max queue - min queue) + 2 x (1 - KV usage) + 3 x matched / prompt, highest wins

The queue score is 1 where all queues are equal. Queues and KV usage come from the engines' metrics there, scraped every
50 ms. Where no report is at hand they are taken from the open leases: running requests, and active tokens as a share
of the cache. Those are never stale, which is to the advantage of this policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate

_QUEUE, _KV, _PREFIX = 2.0, 2.0, 3.0


@policy("llm_d_default", reads_reports=True)
def llm_d_default(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    """Pick the highest sum."""
    queues = [_queue(row) for row in candidates]
    most, spread = max(queues), max(queues) - min(queues)
    scores = [
        _QUEUE * ((most - queue) / spread if spread else 1.0)
        + _KV * (1.0 - min(1.0, row.load.active_tokens / max(1, row.worker.cache_tokens)))
        + _PREFIX * row.matched_tokens / max(1, prompt.tokens)
        for row, queue in zip(candidates, queues, strict=True)
    ]
    return least(candidates, [-score for score in scores], rng)


def _queue(row: Candidate) -> float:
    report = row.report
    return row.load.running_requests if report is None else report.waiting_requests
