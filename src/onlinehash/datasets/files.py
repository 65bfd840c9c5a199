"""Folders, checksums and downloads of data set files."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from onlinehash._internal.files import whole_file
from onlinehash.exceptions import DataNotFoundError, FileFormatError
from onlinehash.types import Progress

ENVIRONMENT_VARIABLE = "ONLINEHASH_DATA"
_CHUNK = 1 << 18
_TIMEOUT_SECONDS = 30


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Return `data_dir`, else the folder that ``ONLINEHASH_DATA`` names, else the user's cache folder."""
    chosen = data_dir or os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen).expanduser() if chosen else _user_cache()


def _user_cache() -> Path:
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "onlinehash" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "onlinehash"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "onlinehash"


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file on disk."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_published(path: Path, sha256: str) -> bytes:
    """Return the uncompressed content of a plain or gzip file, or raise if its sha256 is not the published one."""
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise FileFormatError(f"{path} is a damaged gzip file: {error}. Delete it and load again.") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise FileFormatError(
            f"{path} is not the published file: its content has sha256 {digest}, not {sha256}. "
            "Delete it and load again, or keep each data set in a folder of its own name."
        )
    return content


def download(urls: Sequence[str], target: Path, sha256: str, progress: Progress | None = None) -> None:
    """Download a file from the first mirror that has it; `target` is written only complete and verified.

    ``sha256`` is the digest of the uncompressed content.
    """
    failures = []
    for url in urls:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with urlopen(url, timeout=_TIMEOUT_SECONDS) as response, whole_file(target) as file:
                total, done = int(response.headers.get("Content-Length") or 0), 0
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    if progress is not None:
                        progress(done, max(done, total))
                if done < total:
                    raise OSError(f"the connection ended after {done} of {total} bytes")
                file.flush()
                read_published(Path(file.name), sha256)
            return
        except (OSError, HTTPException, FileFormatError) as error:
            failures.append(f"{url} ({error})")
    raise DataNotFoundError(f"Download of {target.name} failed from {'; '.join(failures)}")
