"""Recorded traffic through the router's own scheduler, against simulated engines, in virtual time.

    trace = read_trace(Path("conversation_trace.jsonl"))
    result = run(trace, "cache_aware", Fleet(workers=8), rate=2.0, seed=1)
    result.first_token.p99, result.hit_share, result.imbalance

`run` (in `replay.run`) takes the name of a policy, any callable `(candidates, prompt, rng) -> candidate`, or a `Rival`
(`replay.rival`): a policy that is made anew for each run and may see what no router can see (`View`: the engines' true
caches and queues) or learn from first tokens. Nothing here reads a clock or opens a socket: the same trace, policy,
fleet, rate and seed give the same result.
"""
