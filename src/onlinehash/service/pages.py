"""The web page: files of the package, read once, so that no request path reaches the file system."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from mimetypes import guess_type
from pathlib import Path

from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from onlinehash.service.endpoints import Content, ReadOnly

STATIC = Path(__file__).with_name("static")
_PATHS = {"index.html": "/", "docs.html": "/docs"}


def make_pages(folder: Path = STATIC) -> Iterator[BaseRoute]:
    """Yield one route per file of a folder; ``index.html`` is at ``/`` and ``docs.html`` at ``/docs``."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            path, media = _PATHS.get(name, f"/{name}"), guess_type(name)[0] or "application/octet-stream"
            content = file.read_bytes(), f"{media}; charset=utf-8" if media.startswith("text/") else media
            yield Route(path, ReadOnly(path, partial(_read, content)))


async def _read(content: Content, request: Request) -> Content:
    return content
