"""Media: images below a folder, and images that are searched for."""

from __future__ import annotations

import asyncio
import io
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from onlinehash.embedders.images import image_type
from onlinehash.exceptions import MissingExtraError
from onlinehash.service.problems import Problem, invalid, over_limit

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "AVIF")
_SUFFIXES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif"}
IMAGES = tuple(f"image/{name.lower()}" for name in FORMATS)
"""Media types of the images that are served and searched for."""

_LARGEST = 32 << 20  # bytes of a file
_PIXELS = 1 << 25  # of an image to search for, which takes 3 bytes each in memory
_HEAD = 32  # first bytes, by which an image is known
_CHUNK = 1 << 16  # bytes read at a time


def open_image(folder: Path, name: str) -> ImageFile:
    """Return an image below a resolved folder; links that lead out of it, and what is no image, are not there."""
    file = _opened(folder, name)
    if file is not None:
        found = os.fstat(file.fileno())
        media = image_type(file.read(_HEAD)) if stat.S_ISREG(found.st_mode) else None
        if media is not None and found.st_size <= _LARGEST:
            return ImageFile(file, found.st_size, media)
        file.close()
        if media is not None:
            raise over_limit("bytes", found.st_size, _LARGEST, "store a smaller image")
    kinds = ", ".join(FORMATS).lower()
    raise Problem(404, "unknown-media", f"There is no image {name[:80]!r} in the folder of media ({kinds}).")


def _opened(folder: Path, name: str) -> BinaryIO | None:
    """Return a file that has the name of an image, open for reading; None if there is none."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts):
        return None
    try:
        real = folder.joinpath(*parts).resolve(strict=True)
        if Path(name).suffix.lower() not in _SUFFIXES or not real.is_relative_to(folder):
            return None
        return os.fdopen(_descriptor(folder, real.relative_to(folder).parts), "rb")
    except (OSError, RuntimeError, ValueError):  # RuntimeError: links that lead to each other
        return None


def _descriptor(folder: Path, parts: tuple[str, ...]) -> int:
    """Open a file one folder after the other, without following a link that was put in their place meanwhile."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if os.open not in os.supports_dir_fd:
        return os.open(folder.joinpath(*parts), flags)
    above = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=above)
            os.close(above)
            above = inner
        return os.open(parts[-1], flags, dir_fd=above)
    finally:
        os.close(above)


class ImageFile(Response):
    """A file, read while it is sent: a slow client takes no memory."""

    def __init__(self, file: BinaryIO, size: int, media: str) -> None:
        super().__init__(media_type=media, headers={"content-length": str(size)})
        self._file, self._size = file, size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        with self._file as file:
            file.seek(0)
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            left = 0 if scope["method"] == "HEAD" else self._size
            while left:
                part = await asyncio.to_thread(file.read, min(left, _CHUNK))
                if not part:
                    raise OSError("an image became shorter while it was sent")
                left -= len(part)
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def read_image(body: bytes) -> Any:
    """Return an image in RGB from the bytes of a file, which are not trusted."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise Problem(415, "media-type", str(MissingExtraError.of("pillow", "onnx")), field="Content-Type") from None
    Image.init()
    known = [name for name in FORMATS if name in Image.OPEN]
    try:
        with Image.open(io.BytesIO(body), formats=known) as image:
            n_pixels = image.width * image.height
            if n_pixels > _PIXELS:
                raise over_limit("pixels", n_pixels, _PIXELS, "send a smaller image")
            return image.convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
        kinds = ", ".join(known).lower()
        raise invalid("body", f"The body cannot be read as an image ({kinds}): {str(error)[:100]}.") from None
