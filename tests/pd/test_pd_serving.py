"""What a pair does when all is well."""

import pytest
from tests.support.http_client import ask
from tests.support.pd import DIALECTS, HANDLE, JSON_BODY, STREAM_BODY, chat, good_answer, pairs_over


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
async def test_the_answer_of_decode_is_the_clients(dialect, stream):
    async with pairs_over(dialect) as pairs:
        pairs.decode.then = good_answer(stream)
        for _ in range(3):
            answer = await ask(pairs.router.port, chat(stream))
            assert (answer.status, answer.body) == (200, STREAM_BODY if stream else JSON_BODY)
            (prefill,), (decode,) = pairs.prefill.workers, pairs.decode.workers
            assert answer.value(b"x-router-prefill-url") == prefill.url.encode()
            assert answer.value(b"x-router-decode-url") == decode.url.encode()
            assert answer.value(b"x-router-worker-url") == decode.url.encode()
        assert (len(pairs.prefill.seen), len(pairs.decode.seen)) == (3, 3)
        assert pairs.statuses() == {("prefill", 200): 3, ("decode", 200): 3}
        if dialect == "vllm":
            assert HANDLE in pairs.decode.seen[0].body
        else:
            assert [request.body for request in pairs.prefill.seen] == [request.body for request in pairs.decode.seen]
