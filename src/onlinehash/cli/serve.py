"""``onlinehash serve``: a collection over HTTP."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinehash.cli._files import TARGET, Target
from onlinehash.cli._options import Embed, Engine, registered
from onlinehash.cli._screen import loudness, note
from onlinehash.exceptions import DataNotFoundError, counted

if TYPE_CHECKING:
    from onlinehash.collection import Collection


def run(
    target: Annotated[Target | None, typer.Argument(metavar="COLLECTION", help=TARGET, parser=Target.parse)] = None,
    *,
    search: Engine = None,
    embed: Embed = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; all but this machine's own need keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for any that is free.", min=0, max=65535)] = 8000,
    method: Annotated[
        str | None,
        typer.Option(help="Create the collection with this hasher (a name, or module:Class) if there is none."),
    ] = None,
    readonly: Annotated[
        bool, typer.Option("--readonly", help="Follow a collection that another process writes to.")
    ] = False,
    read_keys: Annotated[Path | None, typer.Option(help="File of API keys for reading, one per line.")] = None,
    write_keys: Annotated[Path | None, typer.Option(help="File of API keys for writing, one per line.")] = None,
    media: Annotated[
        Path | None,
        typer.Option(
            help="Folder of images to show, which payloads name by their paths below it.", exists=True, file_okay=False
        ),
    ] = None,
    quality: Annotated[
        bool, typer.Option("--quality/--no-quality", help="Search for some new items before they are learned from.")
    ] = True,
    max_body: Annotated[int, typer.Option(help="MiB per request.", min=1)] = 16,
    max_batch: Annotated[int, typer.Option(help="Items, ids or queries per request.", min=1)] = 10_000,
    max_k: Annotated[int, typer.Option(help="Neighbours per query.", min=1)] = 1000,
    max_width: Annotated[int, typer.Option(help="Dimensions of a vector.", min=1)] = 65_536,
    threads: Annotated[int, typer.Option(help="Threads for searches.", min=1)] = 4,
    timeout: Annotated[int, typer.Option(help="Seconds for a search.", min=1)] = 30,
    certfile: Annotated[
        Path | None, typer.Option(help="Certificate (PEM) for TLS.", exists=True, dir_okay=False)
    ] = None,
    keyfile: Annotated[
        Path | None, typer.Option(help="Private key of --certfile.", exists=True, dir_okay=False)
    ] = None,
    root_path: Annotated[str, typer.Option(help="Path below which a proxy serves this, as in /items.")] = "",
    trusted_proxies: Annotated[
        str,
        typer.Option(help="Addresses of proxies whose X-Forwarded-For and -Proto are believed, separated by commas."),
    ] = "",
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log every request to stderr, as one line of JSON.")
    ] = False,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a temporary collection of handwritten digits.")] = False,
) -> None:
    """Serve a collection over HTTP until stopped, or all collections (*.oh) of a folder.

    The routes are listed in /docs. Acknowledged changes are on disk; running requests finish before a stop. SIGHUP
    reads the key files again.

    API keys may also be in the environment: ONLINEHASH_READ_KEY and ONLINEHASH_WRITE_KEY. In a folder, NAME.read-keys
    and NAME.write-keys hold further keys of NAME.oh.
    """
    if demo == (target is not None):
        raise typer.BadParameter("give a collection or --demo, one of the two.")
    from onlinehash.service import ApiKeys, Limits, create_app, server

    folder = Path(target.name) if target is not None and target.store is None and Path(target.name).is_dir() else None
    files = {} if folder is None else {file.stem: file for file in sorted(folder.glob("*.oh"))}
    if folder is not None and not files:
        raise DataNotFoundError(f"There is no collection (*.oh) in {folder}.")

    def keys_now() -> ApiKeys | dict[str, ApiKeys]:
        common = ApiKeys.gather(os.environ, read_keys, write_keys)
        own = {name: [file.with_suffix(f".{kind}-keys") for kind in ("read", "write")] for name, file in files.items()}
        return {
            name: common | ApiKeys.gather({}, *(path if path.is_file() else None for path in paths))
            for name, paths in own.items()
        } or common

    keys = keys_now()
    any_keys = keys if isinstance(keys, ApiKeys) else ApiKeys(required=any(keys.values()))
    if (certfile is None) != (keyfile is None):
        raise typer.BadParameter("--certfile and --keyfile: give both.")
    tls = None if certfile is None or keyfile is None else server.read_certificate(certfile, keyfile)
    server.check_proxies(trusted_proxies)
    if root_path and not root_path.startswith("/"):
        raise typer.BadParameter(f"--root-path {root_path!r} does not begin with '/'; give {'/' + root_path!r}.")
    limits = Limits(
        max_body_bytes=max_body << 20,
        max_batch_size=max_batch,
        max_k=max_k,
        max_dimensions=max_width,
        n_threads=threads,
        timeout=timeout,
    )
    with ExitStack() as stack:
        listening = stack.enter_context(server.listen(host, port, any_keys))
        collections: dict[str, Collection] = {}
        targets = {name: Target(str(file)) for name, file in files.items()}
        if target is None:
            from onlinehash.demo.digits import open_digits

            collections = {"digits": stack.enter_context(open_digits())}
        elif folder is None:
            targets = {Path(target.name).stem: target}
        for name, one in targets.items():
            hasher = None if method is None or one.exists() else registered(method)
            collections[name] = one.open(hasher, readonly=readonly, search=search, embed=embed)
            stack.callback(collections[name].close, refresh=False)  # a stop must not wait for a refresh
        for collection in collections.values():
            if quality and not collection.readonly:  # of some new items, before they are learned from
                in_memory = collection.stats().index in ("memory", "gpu")
                collection.measure_quality(per_call=16 if in_memory else 1)
        app = create_app(collections, limits=limits, keys=keys, root_path=root_path.rstrip("/"), media=media)
        n_items, url = sum(map(len, collections.values())), server.url_of(listening, tls=tls is not None)
        held = "" if folder is None else f" in {counted(len(collections), 'collection')}"
        _log_to_stderr(access_log)
        server.run(
            app,
            listening,
            limits,
            read_keys=keys_now,
            tls=tls,
            trusted_proxies=trusted_proxies,
            announce=lambda: note(f"Serving {counted(n_items, 'item')}{held} on {url} (Ctrl-C stops)"),
        )


def _log_to_stderr(access_log: bool) -> None:
    """Write the log of the package, and that of requests if wanted, to stderr."""
    for name, layout, least in (
        ("onlinehash", "%(asctime)s %(levelname)s %(name)s: %(message)s", "INFO" if loudness.verbose else "WARNING"),
        ("onlinehash.access", "%(message)s", "INFO" if access_log else "CRITICAL"),
    ):
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(layout))
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(least)
    logger.propagate = False
