"""Four characters are a token, and a conversation that grows keeps its prefix."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.simulation.tokens import (
    answer_words,
    block_hashes,
    encode_chat,
    encode_text,
    pack_ids,
    unpack_ids,
)

TEXTS = st.text(max_size=40)
ANY_TEXTS = st.text(st.characters(codec=None, categories=None), max_size=40)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("äöüß!", 2), ("日本", 1)])
def test_four_characters_are_a_token(text, tokens):
    assert len(unpack_ids(encode_text(text))) == tokens


@given(ANY_TEXTS)
def test_any_text_has_a_token_for_four_characters(text):
    """Also text with lone surrogates."""
    assert len(encode_text(text)) == 4 * -(-len(text) // 4)


@given(TEXTS, TEXTS)
def test_whole_tokens_do_not_depend_on_what_follows(text, more):
    whole = len(text) // 4 * 4
    assert encode_text(text + more)[:whole] == encode_text(text)[:whole]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_packed_ids_come_back(ids):
    assert unpack_ids(pack_ids(ids)) == ids


def test_text_and_its_token_ids_are_the_same_prompt():
    packed = encode_text("Grüße aus Köln, and plain text")
    assert pack_ids(unpack_ids(packed)) == packed


def test_text_cannot_forge_a_marker():
    """A chat whose text spells the template is another prompt than the chat that it spells."""
    plain = encode_chat([{"role": "user", "content": "hi  "}, {"role": "user", "content": "ho  "}])
    forged = encode_chat([{"role": "user", "content": "hi  <end><user>ho  "}])
    assert forged != plain
    assert all(token_id < 2**31 for token_id in unpack_ids(encode_text("<user><end>")))


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS, st.integers(1, 9))
def test_a_growing_chat_keeps_its_prefix_and_its_answer(questions, next_question, length):
    """The next turn begins with exactly the tokens of this turn's prompt and answer."""
    messages = [{"role": "user", "content": text} for text in questions]
    prompt = encode_chat(messages)
    words = answer_words(7)
    answer = "".join(next(words) for _ in range(length))
    grown = encode_chat(
        [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": next_question}]
    )
    assert grown.startswith(prompt + encode_text(answer))


def test_trailing_spaces_of_an_answer_may_be_lost():
    """Clients like to strip; the tokens stay the same."""
    answer = "bun kir "
    assert encode_text(answer.strip()) == encode_text(answer)


def test_everything_that_the_model_would_see_counts():
    """Tools, tool calls and parts of other kinds change the prompt."""
    message = {"role": "user", "content": "hello"}
    plain = encode_chat([message])
    tools = [{"type": "function", "function": {"name": "look_up"}}]
    assert encode_chat([message], tools) != plain
    assert encode_chat([{**message, "tool_calls": tools}]) != plain
    assert encode_chat([{"role": "user", "content": [{"type": "text", "text": "hello"}]}]) == plain
    image = {"type": "image_url", "image_url": {"url": "data:,x"}}
    with_image = encode_chat([{"role": "user", "content": [{"type": "text", "text": "hello"}, image]}])
    assert len(with_image) - len(plain) == len(encode_text(json.dumps(image, separators=(",", ":"))))


def test_blocks_are_chained():
    """Equal blocks after different ones have different hashes; a block that is not full has none."""
    one, two = b"a" * 64, b"b" * 64
    assert block_hashes(one + two, 16, 0)[0] == block_hashes(one, 16, 0)[0]
    assert block_hashes(one + two, 16, 0)[1] != block_hashes(two + two, 16, 0)[1]
    assert block_hashes(one + b"a" * 60, 16, 0) == block_hashes(one, 16, 0)
    assert block_hashes(one, 16, 1) != block_hashes(one, 16, 0)


def test_answers_are_words_of_four_characters_that_depend_on_the_seed():
    first, again, other = ([next(words) for _ in range(50)] for words in map(answer_words, (1, 1, 2)))
    assert first == again != other
    assert {len(word) for word in first} == {4}
    assert len(set(first)) > 20
