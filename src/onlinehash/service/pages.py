"""The web page: files of the package, read once, so that no request path reaches the file system."""

from __future__ import annotations

from functools import partial
from mimetypes import guess_type
from pathlib import Path

from fastapi import APIRouter, Response

STATIC = Path(__file__).with_name("static")


def make_pages(folder: Path = STATIC) -> APIRouter:
    """Return one route per file of a folder; ``index.html`` is at ``/``."""
    router = APIRouter(include_in_schema=False)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            name = file.relative_to(folder).as_posix()
            kind = guess_type(name)[0] or "application/octet-stream"
            answer = partial(_answer, file.read_bytes(), kind)
            router.add_api_route("/" if name == "index.html" else f"/{name}", answer, methods=["GET"])
    return router


async def _answer(content: bytes, kind: str) -> Response:
    return Response(content, media_type=kind)
