"""Docstrings as Markdown: roles such as ``:meth:`` become links, and two colons before a block become one.

Methods that are made at run time get their signatures.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr):`~?([^`]+)`")
_LITERAL = re.compile(r"::$", flags=re.MULTILINE)


class Roles(griffe.Extension):
    """Rewrite every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            text = _LITERAL.sub(":", obj.docstring.value)
            obj.docstring.value = _ROLE.sub(lambda role: _link(role[1], obj), text)


class Coroutines(griffe.Extension):
    """Show the methods of AsyncClient, which are made from those of both clients, with their parameters."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Put a coroutine in the place of every attribute that is one."""
        if pkg.name != "onlinehash":
            return
        client = pkg["client.async_client.AsyncClient"]
        for name, method in pkg["client.client.Client"].functions.items():
            if name.startswith("_") or client[name].is_function:
                continue
            made = client[name]
            coroutine = griffe.Function(
                name, lineno=made.lineno, endlineno=made.endlineno, parameters=method.parameters, returns=method.returns
            )
            coroutine.docstring = griffe.Docstring(method.docstring.value.partition("\n")[0], parent=coroutine)
            coroutine.labels.add("async")
            client.set_member(name, coroutine)


def _link(name: str, obj: griffe.Object) -> str:
    """Return a link to a public name, which is left out where it has no place in the reference."""
    path = name
    if not name.startswith("onlinehash"):
        try:
            path = obj.resolve(name)
        except griffe.NameResolutionError:
            return f"`{name}`"
    return f'<autoref optional identifier="{path}"><code>{name.removeprefix("onlinehash.")}</code></autoref>'
