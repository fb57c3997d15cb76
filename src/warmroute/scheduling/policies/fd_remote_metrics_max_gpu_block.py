"""fd_remote_metrics_max_gpu_block: the worker that reports the most free KV blocks.

Use when: KV memory is what runs short, and the engines report their free blocks.
Reads: waiting requests and free KV blocks of the last report. Unit: blocks. Options: none.

Only workers with nothing waiting and a free block qualify. FastDeploy fails the request when none does; here the
worker with the fewest running requests takes it, since a queue in a healthy engine is better than an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policies.request_num import request_num
from warmroute.scheduling.policy import policy
from warmroute.scheduling.worker import Candidate


@policy("fd_remote_metrics_max_gpu_block", reads_reports=True, reads_matches=False)
def fd_remote_metrics_max_gpu_block(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
    """Pick the qualified candidate with the most free blocks, else the one with the fewest running requests."""
    free: list[tuple[Candidate, float]] = [
        (candidate, report.free_kv_blocks)
        for candidate in candidates
        if (report := candidate.report) and report.waiting_requests == 0 and (report.free_kv_blocks or 0) > 0
        if report.free_kv_blocks is not None
    ]
    if not free:
        return request_num(candidates, prompt, rng)
    return least([candidate for candidate, _ in free], [-blocks for _, blocks in free], rng)
