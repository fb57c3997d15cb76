"""Every row of the first table of docs/reference/faults.md, by mixed workers and by pairs of SGLang's dialect."""

import json

import pytest
from tests.faults.playing import AT_THE_DOOR, NOT_THERE, ROWS, cases, play_row
from tests.faults.stage import MODES
from tests.faults.worker_faults import BY_NAME, good
from tests.support.http_client import Client, post

from warmroute.prompts.body import read_request
from warmroute.prompts.ladder import Ladder

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_every_row_is_played():
    assert {row.name for row in ROWS} == {*BY_NAME, *AT_THE_DOOR, *NOT_THERE}


@pytest.mark.parametrize(("row", "mode", "dialect", "stream", "others"), cases(MODES, ["sglang"]))
async def test_row(stages, row, mode, dialect, stream, others):
    await play_row(stages, row, mode, dialect, stream, others)


async def test_only_the_worker_that_served_is_learned(stages):
    """Whatever the policy, the index knows one worker for the prompt afterwards."""
    stage = await stages.of("mixed")
    await stage.begin(good(stream=False))
    stage.fail(BY_NAME["answers 500"](False), 1)
    body = {"model": "m", "messages": [{"role": "user", "content": "learned once " * 100}]}
    async with await Client.connect(stage.router.port) as client:
        assert (await client.ask(post(body=body))).status == 200
    prompt = read_request(json.dumps(body).encode(), "chat", Ladder.default())
    (learned,) = stage.router.index.match(prompt.fingerprint)
    failed, served = stage.failing.seen_by
    assert failed is not served
    assert learned.url == served.url
