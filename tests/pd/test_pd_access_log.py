"""The access log names both workers of a pair."""

import json

import pytest
from tests.support.http_client import ask
from tests.support.pd import DIALECTS, chat, good_answer, pairs_over

from warmroute.telemetry.access_log import AccessLog, open_access_log


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_line_names_both_workers_and_times_the_answer_of_decode(dialect, tmp_path):
    async with pairs_over(dialect) as pairs:
        router = pairs.router
        router.gateway.tells_of_requests = True
        log = router.gateway.access_log = AccessLog(open_access_log(str(tmp_path / "log")), router.metrics)
        pairs.decode.then = good_answer(stream=True)
        await ask(router.port, chat(stream=True))
        await log.close()
        (prefill,), (decode,) = pairs.prefill.workers, pairs.decode.workers
    (line,) = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert (line["prefill_worker"], line["worker"]) == (prefill.url.split("//")[1], decode.url.split("//")[1])
    assert (line["status"], line["outcome"], line["policy"]) == (200, "served", "round_robin")
    assert 0 <= line["ttft"] <= line["duration"]
    assert line["output_tokens"] >= 1
