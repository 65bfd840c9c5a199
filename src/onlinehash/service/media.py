"""Media: images below a folder, and images that are searched for."""

from __future__ import annotations

import io
import stat
from pathlib import Path
from threading import Lock
from typing import Any

from starlette.responses import FileResponse

from onlinehash.embedders.images import image_type
from onlinehash.exceptions import MissingExtraError
from onlinehash.service.limits import check_limit
from onlinehash.service.problems import Problem, invalid

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "AVIF")
_SUFFIXES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif"}
IMAGES = tuple(f"image/{name.lower()}" for name in FORMATS)
"""Media types of the images that are served and searched for."""

MAX_FILE_BYTES = 32 << 20
MAX_PIXELS = 1 << 22  # of an image to search for, which takes up to 8 bytes each in memory
HEAD_BYTES = 32  # first bytes, by which an image is known
_decoding = Lock()  # one at a time


def open_image(folder: Path, name: str) -> FileResponse:
    """Return an image below a resolved folder; links that lead out of it, and what is no image, are not there."""
    parts = name.split("/")
    try:
        path = folder.joinpath(*parts).resolve(strict=True)
        found = path.stat()
        plain = not any(part in ("", ".", "..") or "\\" in part for part in parts)
        if plain and path.is_relative_to(folder) and stat.S_ISREG(found.st_mode):
            with path.open("rb") as file:
                media = image_type(file.read(HEAD_BYTES)) if Path(name).suffix.lower() in _SUFFIXES else None
            if media is not None:
                check_limit("bytes", found.st_size, MAX_FILE_BYTES, "store a smaller image")
                return FileResponse(path, media_type=media, stat_result=found)
    except (OSError, RuntimeError, ValueError):  # RuntimeError: links that lead to each other
        pass
    kinds = ", ".join(FORMATS).lower()
    raise Problem(404, "unknown-media", f"There is no image {name[:80]!r} in the folder of media ({kinds}).")


def read_image(body: bytes) -> Any:
    """Return an image in RGB from the content of a file, which is not trusted."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        raise invalid("images", str(MissingExtraError.of("pillow", "onnx"))) from None
    Image.init()
    known = [name for name in FORMATS if name in Image.OPEN]
    try:
        with _decoding, Image.open(io.BytesIO(body), formats=known) as image:
            if image.width * image.height > MAX_PIXELS:
                image.draft("RGB", (1024, 1024))  # JPEG is decoded smaller, down to an eighth
            check_limit("pixels", image.width * image.height, MAX_PIXELS, "send a smaller image")
            return image.convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
        kinds = ", ".join(known).lower()
        raise invalid("images", f"images cannot be read as one ({kinds}): {str(error)[:100]}.") from None
