"""What may be spent on trying again after a server error is spent where somebody is left to try."""

import pytest
from tests.support.http_client import ask
from tests.support.pd import DIALECTS, PREFILL_ANSWER, chat, pairs_over
from tests.support.scripted_worker import answering, response

ERROR = response(b"no", b"500 Oops")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("side", ["prefill", "decode"])
async def test_nothing_is_asked_of_the_budget_for_nobody(dialect, side):
    async with pairs_over(dialect, server={"retry_budget": 0}, pd_decode_alone="never") as pairs:
        getattr(pairs, side).then = answering(ERROR)
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (500, b"no")
        assert pairs.router.metrics.retries_denied == 0


async def test_where_another_pair_is_left_it_is_asked():
    async with pairs_over("sglang", 1, 2, server={"retry_budget": 0}) as pairs:
        pairs.prefill.then = answering(PREFILL_ANSWER)
        pairs.decode.then = answering(ERROR)
        answer = await ask(pairs.router.port, chat())
        assert (answer.status, answer.body) == (500, b"no")
        assert len(pairs.decode.seen) == 1
        assert pairs.router.metrics.retries_denied == 1
