"""Jinja as chat templates need it: in a sandbox, with what they expect to find there, and quick at fields of messages.

Apart, because Jinja comes with an extra.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

_DICT_ATTRIBUTES = frozenset(dir(dict))


class _FieldsInPlace(CodeGenerator):
    """`message.role` and `message['role']` of plain dicts cost no call. All else is the environment's to judge."""

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        field = None if node.attr in _DICT_ATTRIBUTES else node.attr
        tried = self._try_field(node.node, field, frame)
        super().visit_Getattr(node, frame)
        self.write(")" * tried)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        tried = self._try_field(node.node, node.arg.value if isinstance(node.arg, nodes.Const) else None, frame)
        super().visit_Getitem(node, frame)
        self.write(")" * tried)

    def _try_field(self, of: nodes.Expr, field: object, frame: Frame) -> bool:
        """Look into a variable, if it is one; what is written next is for all other cases."""
        if not isinstance(of, nodes.Name) or not isinstance(field, str):
            return False
        name = frame.symbols.ref(of.name)
        self.write(f"({name}[{field!r}] if {name}.__class__ is dict and {field!r} in {name} else ")
        return True


class _Environment(ImmutableSandboxedEnvironment):
    code_generator_class = _FieldsInPlace

    def getattr(self, obj: Any, attribute: str) -> Any:
        # As Jinja does it, but without raising an AttributeError first for each field of each message.
        if type(obj) is dict and attribute in obj and attribute not in _DICT_ATTRIBUTES:
            return obj[attribute]
        return super().getattr(obj, attribute)


def compile_template(source: str) -> Template:
    """Jinja's TemplateError for a source that is no template."""
    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _strftime_now
    return environment.from_string(source)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    """Without Jinja's own escapes for HTML, as Hugging Face has it."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def _strftime_now(format_: str) -> str:
    return datetime.now().strftime(format_)
