"""The web page: files of the package, read once, so that no request path reaches the file system."""

from __future__ import annotations

from collections.abc import Iterator
from mimetypes import guess_type
from pathlib import Path

from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from onlinehash.service.endpoints import not_allowed, respond

STATIC = Path(__file__).with_name("static")
_PATHS = {"index.html": "/", "docs.html": "/docs"}


class _File:
    """A file, at one path."""

    def __init__(self, path: str, content: bytes, media: str) -> None:
        self._path, self._content = path, content
        self._media = f"{media}; charset=utf-8" if media.startswith("text/") else media

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["pattern"] = self._path
        if scope["method"] not in ("GET", "HEAD"):
            raise not_allowed(scope, ["GET", "HEAD"])
        await respond(send, self._content, self._media)


def make_pages(folder: Path = STATIC) -> Iterator[BaseRoute]:
    """Yield one route per file of a folder; ``index.html`` is at ``/`` and ``docs.html`` at ``/docs``."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            path = _PATHS.get(name, f"/{name}")
            yield Route(path, _File(path, file.read_bytes(), guess_type(name)[0] or "application/octet-stream"))
