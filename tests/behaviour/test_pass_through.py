"""What the worker gets is what the client sent; what the client gets is what the worker sent."""

import json

import pytest
from tests.support.http_client import CHAT, COMPLETIONS, Client, ask, post
from tests.support.scripted_worker import answering, chunk, head, response, then_closing

pytestmark = pytest.mark.asyncio(loop_scope="module")

ODD_BODIES = {
    "white space and order": b'{ "messages" :[ ],\t"model":"m"  ,\r\n"x" : 1.50e+1 }\n',
    "integers beyond 64 bits": b'{"seed":123456789012345678901234567890,"model":"m"}',
    "escapes": b'{"model":"\\u006d","messages":[{"content":"\\ud83d\\ude00 \\/ \\u0000"}]}',
    "duplicate keys": b'{"model":"m","model":"m","messages":[],"messages":[{"role":"user"}]}',
    "byte order mark": b'\xef\xbb\xbf{"model":"m"}',
    "UTF-8": '{"model":"m","prompt":"你好, Welt"}'.encode(),
    "unread fields of any type": b'{"tools":1,"user":[],"request_id":7,"session_id":{},"extra_body":"x"}',
    "nothing but an object": b"{}",
    "nulls": b'{"model":null,"stream":null,"max_tokens":null,"messages":null,"prompt":null}',
}


@pytest.mark.parametrize("body", ODD_BODIES.values(), ids=ODD_BODIES)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/generate", "/v1/embeddings"])
async def test_the_body_goes_upstream_byte_for_byte(router, worker, body, path):
    answer = await ask(router.port, post(path, body))
    assert answer.status == 200
    assert worker.requests[0].body == body
    assert worker.requests[0].values(b"content-length") == [b"%d" % len(body)]


async def test_a_large_body_goes_upstream_byte_for_byte(router, worker):
    body = json.dumps({"model": "m", "prompt": "0123456789abcdef" * 200_000}).encode()
    assert (await ask(router.port, post(COMPLETIONS, body))).status == 200
    assert worker.requests[0].body == body


@pytest.mark.parametrize(
    "path",
    [CHAT, COMPLETIONS, "/generate", "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/rerank", "/tokenize"],
)
async def test_path_and_query_are_kept(router, worker, path):
    target = path + "?api-version=1&x=%20a%2Fb&empty="
    assert (await ask(router.port, post(target))).status == 200
    assert worker.requests[0].line == b"POST " + target.encode() + b" HTTP/1.1"


async def test_headers_pass_in_order_and_case(router, worker):
    kept = [
        (b"X-Custom", b"one"),
        (b"accept-ENCODING", b"gzip, br"),
        (b"X-Custom", b"two"),
        (b"Authorization", b"Bearer s3cret"),
        (b"Cookie", b"a=b; c=d"),
        (b"X-Empty", b""),
        (b"X-Latin", b"caf\xe9"),
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ]
    assert (await ask(router.port, post(headers=kept))).status == 200
    names = {name.lower() for name, _ in kept}
    assert [header for header in worker.requests[0].headers if header[0].lower() in names] == kept


async def test_hop_by_hop_headers_stay_behind(router, worker):
    """Those that RFC 9110 names, and those that a Connection field names."""
    hop_by_hop = [
        (b"Connection", b"keep-alive, X-Mine"),
        (b"x-mine", b"1"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Proxy-Authorization", b"Basic x"),
        (b"Proxy-Connection", b"keep-alive"),
        (b"TE", b"trailers"),
        (b"Trailer", b"X-Sum"),
    ]
    assert (await ask(router.port, post(headers=[*hop_by_hop, (b"X-Stays", b"1")]))).status == 200
    arrived = {name.lower() for name, _ in worker.requests[0].headers}
    assert not arrived & ({name.lower() for name, _ in hop_by_hop} - {b"connection"})
    assert b"x-stays" in arrived
    assert not any(b"x-mine" in value.lower() for value in worker.requests[0].values(b"connection"))


async def test_the_host_is_the_workers(router, worker):
    await ask(router.port, post())
    assert worker.requests[0].values(b"host") == [b"127.0.0.1:%d" % worker.port]


STATUSES = [b"200 OK", b"201 Created", b"202 Accepted", b"400 Bad Request", b"401 Unauthorized", b"404 Not Found"]
STATUSES += [
    b"418 Short And Stout",
    b"422 Unprocessable Entity",
    b"429 Too Many Requests",
    b"500 Internal Server Error",
]
STATUSES += [b"501 Not Implemented", b"502 Bad Gateway", b"503 Service Unavailable", b"599 Odd", b"299 "]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("content_type", [b"application/json", b"text/plain; charset=latin-1"])
async def test_status_type_and_body_come_back_unchanged(router, worker, status, content_type):
    body = b'{"detail": "caf\xe9"}'
    worker.script = answering(response(body, status, [(b"Content-Type", content_type)]))
    answer = await ask(router.port, post())
    assert (answer.status, answer.reason) == (int(status[:3]), status[4:])
    assert answer.values(b"content-type") == [content_type]
    assert answer.body == body
    assert len(worker.requests) == 1


async def test_response_headers_pass_in_order_and_case(router, worker):
    kept = [(b"X-Engine", b"a"), (b"Set-Cookie", b"a=1"), (b"x-engine", b"b"), (b"Set-Cookie", b"b=2"), (b"Date", b"x")]
    hop_by_hop = [(b"Connection", b"X-Hop, keep-alive"), (b"X-Hop", b"1"), (b"Keep-Alive", b"timeout=9")]
    worker.script = answering(response(headers=[*kept, *hop_by_hop, (b"Content-Encoding", b"gzip")]))
    answer = await ask(router.port, post())
    names = {name.lower() for name, _ in kept}
    assert [header for header in answer.headers if header[0].lower() in names] == kept
    assert answer.values(b"content-encoding") == [b"gzip"]
    assert not answer.values(b"x-hop")
    assert not answer.values(b"keep-alive")


@pytest.mark.parametrize(
    "data",
    [
        head(b"200 OK", [(b"Transfer-Encoding", b"chunked")]) + chunk(b"abc") + chunk(b"def") + b"0\r\n\r\n",
        head(b"200 OK", [(b"Transfer-Encoding", b"chunked")]) + b"6;x=y\r\nabcdef\r\n0\r\nX-Sum: 1\r\n\r\n",
        head(b"200 OK", [(b"Connection", b"close")]) + b"abcdef",
        head(b"200 OK", [(b"Content-Length", b"6")]) + b"abcdef",
        b"HTTP/1.0 200 OK\r\n\r\nabcdef",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + response(b"abcdef"),
    ],
    ids=["chunked", "chunk extension and trailer", "until close", "length", "HTTP/1.0", "interim responses"],
)
async def test_every_framing_of_a_response_is_understood(router, worker, data):
    worker.script = then_closing(data)
    answer = await ask(router.port, post())
    assert answer.status == 200
    assert answer.body == b"abcdef"


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_a_response_without_body_leaves_the_connection_usable(router, worker, status):
    worker.script = answering(head(status, []))
    async with await Client.connect(router.port) as client:
        assert (await client.ask(post())).status == int(status[:3])
        worker.script = answering(response(b"next"))
        assert (await client.ask(post())).body == b"next"


async def test_a_request_id_is_kept_sent_and_returned(router, worker):
    answer = await ask(router.port, post(headers=[(b"X-Request-Id", b"mine-1")]))
    assert worker.requests[0].values(b"x-request-id") == [b"mine-1"]
    assert answer.values(b"x-request-id") == [b"mine-1"]


async def test_a_request_id_is_made_sent_and_returned(router, worker):
    answers = [await ask(router.port, post()) for _ in range(2)]
    ids = [answer.value(b"x-request-id") for answer in answers]
    assert [request.values(b"x-request-id") for request in worker.requests] == [[name] for name in ids]
    assert len(set(ids)) == 2
    assert all(ids)


async def test_errors_of_the_router_carry_the_request_id(router):
    answer = await ask(router.port, post(body=b"no json", headers=[(b"X-Request-Id", b"mine-2")]))
    assert answer.status == 400
    assert answer.values(b"x-request-id") == [b"mine-2"]


async def test_a_request_id_of_the_engine_does_not_make_two(router, worker):
    worker.script = answering(response(headers=[(b"X-Request-Id", b"engine"), (b"X-Router-Worker-URL", b"lie")]))
    answer = await ask(router.port, post(headers=[(b"X-Request-Id", b"mine-3")]))
    assert answer.values(b"x-request-id") == [b"mine-3"]
    assert answer.values(b"x-router-worker-url") == [worker.url.encode()]


async def test_the_answer_tells_the_worker(router, worker):
    answer = await ask(router.port, post())
    assert answer.values(b"x-router-worker-url") == [worker.url.encode()]


async def test_connections_to_the_worker_are_reused(router, worker):
    for _ in range(5):
        assert (await ask(router.port, post())).status == 200
    assert {request.connection_number for request in worker.requests} == {worker.requests[0].connection_number}
    first = worker.requests[0].number_on_connection
    assert [request.number_on_connection for request in worker.requests] == list(range(first, first + 5))


async def test_a_worker_that_closes_after_its_answer_is_obeyed(router, worker):
    worker.script = then_closing(response(headers=[(b"Connection", b"close")]))
    for _ in range(3):
        assert (await ask(router.port, post())).status == 200
    assert len({request.connection_number for request in worker.requests}) == 3
