import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.prompts.body import read_request
from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt

LADDER = Ladder.default()
SMALL = Ladder.fixed(8)
KINDS = ("chat", "completions", "other")
LONG = "The quick brown fox jumps over the lazy dog. " * 20

messages = st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": st.text(max_size=60)}), max_size=6)


def encode(**body):
    return json.dumps(body).encode()


def read(kind="chat", ladder=LADDER, **body):
    return read_request(encode(**body), kind, ladder)


def chat(content=LONG, **more):
    return read(messages=[{"role": "user", "content": content}], **more)


def test_a_chat_body_says_it_all():
    prompt = chat("hi", model="m", stream=True, max_tokens=7, request_id="r", session_id="s")
    covered = '[{"role": "user", "content": "hi"}'
    assert prompt == Prompt(
        tokens=-(-len(covered) // 4),
        fingerprint=[],
        model="m",
        stream=True,
        max_tokens=7,
        request_id="r",
        session_id="s",
        seed=prompt.seed,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_object_is_the_engines_to_judge(kind):
    prompt = read_request(b"{}", kind, LADDER)
    assert prompt == Prompt(fingerprint=[], seed=prompt.seed)


@pytest.mark.parametrize("kind", KINDS)
def test_null_is_the_engines_to_judge(kind):
    names = ("model", "stream", "max_tokens", "max_completion_tokens", "messages", "prompt", "tools", "extra_body")
    assert read_request(json.dumps(dict.fromkeys(names)).encode(), kind, LADDER).tokens == 0


def test_either_name_of_the_cap_counts():
    assert chat(max_tokens=5).max_tokens == 5
    assert chat(max_completion_tokens=6).max_tokens == 6
    assert chat(max_tokens=5, max_completion_tokens=6).max_tokens == 6
    assert chat(max_tokens=5, max_completion_tokens=None).max_tokens == 5


@pytest.mark.parametrize(
    "other",
    [
        {"model": "b"},
        {"cache_salt": "s"},
        {"chat_template": "t"},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"reasoning_effort": "high"},
        {"documents": [{"text": "d"}]},
        {"tools": [{"type": "function"}]},
    ],
    ids=lambda other: next(iter(other)),
)
def test_whatever_changes_the_cache_changes_every_hash(other):
    plain, changed = chat(), chat(**other)
    assert plain.fingerprint
    assert not set(plain.fingerprint) & set(changed.fingerprint)
    assert plain.seed != changed.seed


@pytest.mark.parametrize("other", [{"stream": True}, {"max_tokens": 5}, {"temperature": 0.5}, {"user": "u"}, {"n": 2}])
def test_what_does_not_change_the_cache_changes_no_hash(other):
    assert chat(**other).fingerprint == chat().fingerprint


def test_tools_come_before_the_messages_and_count():
    tools = [{"type": "function", "function": {"name": "f", "description": LONG}}]
    with_tools = chat(tools=tools)
    assert with_tools.tokens == pytest.approx(chat().tokens + len(json.dumps(tools)) / 4, abs=1)
    other_words = read(tools=tools, messages=[{"role": "user", "content": "something else"}])
    shared = len(json.dumps(tools)) // 256
    assert shared
    assert with_tools.fingerprint[:shared] == other_words.fingerprint[:shared]


def test_tools_alone_are_a_prompt():
    assert read(tools=[1, 2]).tokens == len("[1, 2]") // 4 + 1


@pytest.mark.parametrize("indent", [None, 2])
@given(conversation=messages, more=messages)
def test_a_grown_conversation_keeps_every_full_block(indent, conversation, more):
    def fingerprint_of(turns):
        body = json.dumps({"model": "m", "messages": turns}, indent=indent).encode()
        return read_request(body, "chat", SMALL).fingerprint

    before = fingerprint_of(conversation)
    # An empty conversation is only "[", and white space may follow it; one with turns ends in a brace.
    assert fingerprint_of(conversation + more)[: len(before)] == before


@given(conversation=messages)
def test_every_prompt_is_covered_to_its_last_whole_block(conversation):
    prompt = read(ladder=SMALL, messages=conversation)
    size = len(json.dumps(conversation)) - 1
    assert prompt.tokens == -(-size // 4)
    assert len(prompt.fingerprint) == SMALL.depth(size)


def test_a_list_of_one_string_is_that_string():
    assert read("completions", prompt=[LONG]) == read("completions", prompt=LONG)
    assert read("completions", prompt=LONG).fingerprint
    assert read("completions", prompt=LONG).tokens == len(LONG) // 4


def test_text_is_hashed_without_its_quotes():
    longer = read("completions", prompt=LONG + "and more of it")
    shorter = read("completions", prompt=LONG[:512])
    assert longer.fingerprint[:2] == shorter.fingerprint == longer.fingerprint[: LADDER.depth(512)]


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=30), st.lists(st.integers(0, 200), max_size=30))
def test_token_ids_are_exact(ids, more):
    prompt = read("completions", SMALL, prompt=ids)
    assert prompt.tokens == len(ids)
    assert len(prompt.fingerprint) == len(pack_token_ids(ids)) // 8
    assert [SMALL.tokens_at(depth + 1) for depth in range(len(prompt.fingerprint))] == list(range(2, len(ids) + 1, 2))
    assert read("completions", SMALL, prompt=[ids]).fingerprint == prompt.fingerprint
    assert read("completions", SMALL, prompt=ids + more).fingerprint[: len(prompt.fingerprint)] == prompt.fingerprint


def test_a_batch_counts_all_and_is_placed_by_its_first():
    ids = read("completions", prompt=[list(range(100)), [1, 2, 3]])
    assert ids.tokens == 103
    assert ids.fingerprint == read("completions", prompt=list(range(100))).fingerprint
    texts = read("completions", prompt=[LONG, "abcd"])
    assert texts.tokens == -(-(len(LONG) + 4) // 4)
    assert texts.fingerprint == read("completions", prompt=LONG).fingerprint


@pytest.mark.parametrize(
    "prompt",
    [
        *([], [[]], [""], ["a", 1], [1, "a"], [[1], "a"], [[1], 2], ["a", None], [None], [{"a": 1}]),
        *([1.5], [-1], [2**32], [2**70], [[-1]], [True], [[True]]),
    ],
    ids=str,
)
def test_odd_prompt_lists_are_the_engines_to_judge(prompt):
    assert read("completions", prompt=prompt).tokens <= -(-len(json.dumps(prompt)) // 4)


@pytest.mark.parametrize("length", [5_000 * 5, 8 * 1024 * 1024])
@pytest.mark.parametrize("pieces", [b"[]", b"[1]", b'""', b'"",[]', b"[1],[]", b"1", b"12,[]"], ids=repr)
def test_a_prompt_list_of_many_pieces_is_not_taken_apart(pieces, length):
    """Its pieces would be millions of objects, and nothing else runs meanwhile. It is covered as bytes instead.

    A second is ten times what the slowest of these takes; taken apart, the longer ones took several.
    """
    count = (length if pieces != b"1" else max(length, 3 * 1024 * 1024)) // (len(pieces) + 1)
    body = b'{"prompt":[' + b",".join([pieces] * count) + b"]}"
    before = time.process_time()
    assert read_request(body, "completions", LADDER).tokens == -(-(len(body) - len(b'{"prompt":]}')) // 4)
    assert time.process_time() - before < 1.0


def test_a_prompt_list_that_is_very_long_is_not_taken_apart():
    text = "x" * 9 * 1024 * 1024
    assert read("completions", prompt=[text]).tokens == len(text) // 4 + 1


def test_large_batches_are_taken_apart():
    assert read("completions", prompt=[[1, 2]] * 4095).tokens == 2 * 4095
    assert read("completions", prompt=["abcdefgh"] * 4096).tokens == 2 * 4096
    assert read("completions", prompt=list(range(100_000, 300_000))).tokens == 200_000
    assert read("completions", prompt=[list(range(100_000, 300_000))]).tokens == 200_000


@pytest.mark.parametrize("name", ["input", "messages", "prompt", "text", "query"])
def test_balanced_paths_have_an_estimate_whatever_they_call_the_prompt(name):
    prompt = read("other", **{name: LONG})
    assert prompt.tokens == pytest.approx(len(LONG) / 4, abs=1)
    assert len(prompt.fingerprint) == LADDER.depth(len(LONG))


def test_balanced_paths_share_nothing_with_chat():
    turns = [{"role": "user", "content": LONG}]
    assert not set(read("other", messages=turns).fingerprint) & set(read("chat", messages=turns).fingerprint)


def test_a_rerank_counts_query_and_documents():
    prompt = read("other", query="q" * 400, documents=["d" * 400, "d" * 400])
    assert prompt.tokens == pytest.approx(300, abs=5)
