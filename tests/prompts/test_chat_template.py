"""Chat templates, rendered as Hugging Face's libraries render them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from warmroute.prompts.chat_template import ChatTemplate
from warmroute.prompts.engine_input import Chat
from warmroute.prompts.tokenizer import TokenizerError

CHATML = """{%- for m in messages %}
<|im_start|>{{ m['role'] }}
{{ m['content'] }}<|im_end|>
{%- endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}"""


def rendered(template: ChatTemplate, chat: Chat) -> str:
    return "".join(template.pieces(chat))


USER = {"role": "user", "content": "a < b & 'c'"}


def test_messages_are_not_escaped_and_blocks_are_trimmed():
    text = rendered(ChatTemplate(CHATML), Chat([USER]))
    assert text == "<|im_start|>user\na < b & 'c'<|im_end|><|im_start|>assistant\n"
    assert not rendered(ChatTemplate(CHATML), Chat([USER], add_generation_prompt=False)).endswith("assistant\n")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ tools | tojson }}", '[{"name": "é<&>"}]'),
        ("{{ bos_token }}{{ thinking }}{{ documents is none }}", "<s>yesTrue"),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"),
        ("{{ messages[0].content.split(' ')[0] }}{% set ns = namespace(a=1) %}{{ ns.a }}", "a1"),
        ("{{ strftime_now('%%') }}", "%"),
    ],
)
def test_what_templates_expect_to_find(source: str, text: str):
    chat = Chat([USER], [{"name": "é<&>"}], options={"thinking": "yes"})
    assert rendered(ChatTemplate(source, {"bos_token": "<s>"}), chat) == text


def test_fields_hide_no_methods_and_open_no_doors():
    """As in Jinja: a field is what is no attribute of a dict, and what is not there is undefined."""
    message = {"role": "user", "content": "x", "items": "mine", "__class__": "mine", "pop": "mine"}
    source = "{% for m in messages %}{{ m.items() | length }} {{ m.content }} {{ m.name is defined }}{% endfor %}"
    assert rendered(ChatTemplate(source), Chat([message])) == "5 x False"
    for refused in ("{{ messages[0].__class__.mro() }}", "{{ messages[0].pop('role') }}"):
        with pytest.raises(TokenizerError, match="chat template failed"):
            rendered(ChatTemplate(refused), Chat([message]))


def test_fields_of_plain_dicts_and_of_all_else():
    """A field that is read in place is what Jinja's sandbox finds there, and so is what is none."""
    sources = [
        "{{ m.role }}{{ m['role'] }}{{ m.no is defined }}{{ m['no'] is defined }}{{ m.keys() | list }}{{ m['keys'] }}",
        "{{ missing.role is defined }}",
        "{{ missing['role'] }}",
        "{% set ns = namespace(role='n') %}{{ ns.role }}{{ 'text'.role is defined }}{{ [1, 2][0] }}{{ m[('a', [1])] }}",
        "{% for m in [m, 1] %}{{ loop.index0 }}{{ m.role }}{{ loop['last'] }}{% endfor %}",
        "{% macro role(m) %}{{ m.role }}{% endmacro %}{{ role(m) }}{{ role(1) }}{{ {'role': 3}.role }}",
        "{{ (m.role if m.role is string else m['x']).upper() }}{{ m.nested.deep['er'].est }}",
    ]
    message = {"role": "user", "nested": {"deep": {"er": {"est": 1}}}}
    plain = ImmutableSandboxedEnvironment()
    for source in sources:
        try:
            expected = plain.from_string(source).render(m=message)
        except UndefinedError as error:
            with pytest.raises(TokenizerError, match=re.escape(str(error))):
                rendered(ChatTemplate(source), Chat([], options={"m": message}))
        else:
            assert rendered(ChatTemplate(source), Chat([], options={"m": message})) == expected


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages[7].content.x }}",
    ],
)
def test_a_template_that_refuses_or_does_what_it_must_not(source: str):
    with pytest.raises(TokenizerError, match="chat template failed"):
        rendered(ChatTemplate(source), Chat([USER]))


def test_a_template_that_is_none():
    with pytest.raises(TokenizerError, match="cannot be used"):
        ChatTemplate("{% for %}")


def test_where_it_is_found(tmp_path: Path):
    tokenizer = tmp_path / "tokenizer.json"
    with pytest.raises(TokenizerError, match="--chat-template"):
        ChatTemplate.beside(tokenizer)
    config = {"chat_template": "config {{ eos_token }}", "eos_token": {"content": "<end>"}, "pad_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert rendered(ChatTemplate.beside(tokenizer), Chat([USER])) == "config <end>"
    (tmp_path / "chat_template.jinja").write_text("file")
    assert rendered(ChatTemplate.beside(tokenizer), Chat([USER])) == "file"
    (tmp_path / "own").write_text("own {{ eos_token }}")
    assert rendered(ChatTemplate.beside(tokenizer, str(tmp_path / "own")), Chat([USER])) == "own <end>"
    with pytest.raises(TokenizerError, match="missing"):
        ChatTemplate.beside(tokenizer, str(tmp_path / "missing"))
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(TokenizerError, match="tokenizer_config"):
        ChatTemplate.beside(tokenizer)
