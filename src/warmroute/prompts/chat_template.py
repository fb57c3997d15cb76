"""The chat template of a model, found beside its tokenizer and rendered as Hugging Face's libraries do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmroute.prompts.engine_input import Chat
from warmroute.prompts.tokenizer import TokenizerError

if TYPE_CHECKING:
    from jinja2 import Template

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class ChatTemplate:
    """Renders messages to the text that an engine would tokenise. Needs the extra `warmroute[kv-events]`."""

    def __init__(self, source: str, special_tokens: Mapping[str, str] | None = None) -> None:
        """Compile the template. TokenizerError when Jinja is missing or the template is none."""
        self._template = _compile(source)
        self._special = dict(special_tokens or {})

    @classmethod
    def beside(cls, tokenizer: str | Path, template: str | None = None) -> ChatTemplate:
        """The template in that file, else the one of a model's directory, where `tokenizer` is its tokenizer.json.

        TokenizerError when there is none.
        """
        directory = Path(tokenizer).parent
        config = _read_config(directory / "tokenizer_config.json")
        source = _source(Path(template) if template else directory / "chat_template.jinja", needed=bool(template))
        if source is None:
            told = config.get("chat_template")
            source = told if isinstance(told, str) else None
        if source is None:
            raise TokenizerError(
                f"no chat template beside {tokenizer}: name one with --chat-template, "
                "or leave --tokenizer out so that the engines tokenise"
            )
        return cls(source, _special_tokens(config))

    def pieces(self, chat: Chat) -> list[str]:
        """The text of a chat, as the template gives it out. TokenizerError when it refuses the chat."""
        names: dict[str, Any] = {
            **self._special,
            "messages": chat.messages,
            "tools": chat.tools,
            "documents": None,
            "add_generation_prompt": chat.add_generation_prompt,
            **chat.options,
        }
        try:
            # As `generate` does it, which would pass each piece on by itself.
            return list(self._template.root_render_func(self._template.new_context(names)))
        except Exception as error:  # whatever a template may raise
            raise TokenizerError(f"the chat template failed: {type(error).__name__}: {error}") from error


def _compile(source: str) -> Template:
    try:
        from jinja2 import TemplateError

        from warmroute.prompts.jinja_environment import compile_template
    except ImportError as error:
        raise TokenizerError("a chat template needs the extra: pip install 'warmroute[kv-events]'") from error
    try:
        return compile_template(source)
    except TemplateError as error:
        raise TokenizerError(f"the chat template cannot be used: {error}") from error


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{path} cannot be used: {error}") from error
    return config if isinstance(config, dict) else {}


def _source(path: Path, *, needed: bool) -> str | None:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if needed or not isinstance(error, FileNotFoundError):
            raise TokenizerError(f"chat template {path} cannot be used: {error}") from error
        return None


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """A token is told as its text or as an object with it."""
    told = {name: config.get(name) for name in _SPECIAL}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in told.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}
