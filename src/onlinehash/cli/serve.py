"""``onlinehash serve``: a collection over HTTP."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from onlinehash.cli._options import Engine, registered
from onlinehash.cli._screen import note
from onlinehash.cli._target import TARGET, Target


def run(
    target: Annotated[
        Target | None,
        typer.Argument(metavar="COLLECTION", help=TARGET, parser=Target.parse, show_default=False),
    ] = None,
    *,
    search: Engine = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; all but this machine's own need keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for any that is free.", min=0, max=65535)] = 8000,
    method: Annotated[
        str | None,
        typer.Option(
            help="Create the collection with this hasher (a name, or module:Class) if there is none.",
            show_default=False,
        ),
    ] = None,
    readonly: Annotated[
        bool, typer.Option("--readonly", help="Follow a collection that another process writes to.")
    ] = False,
    read_keys: Annotated[
        Path | None,
        typer.Option(
            help="File of API keys for reading, one per line; or set ONLINEHASH_READ_KEY.", show_default=False
        ),
    ] = None,
    write_keys: Annotated[
        Path | None,
        typer.Option(
            help="File of API keys for writing, one per line; or set ONLINEHASH_WRITE_KEY.", show_default=False
        ),
    ] = None,
    max_body: Annotated[int, typer.Option(help="MiB per request.", min=1)] = 64,
    max_batch: Annotated[int, typer.Option(help="Items, ids or queries per request.", min=1)] = 10_000,
    max_k: Annotated[int, typer.Option(help="Neighbours per query.", min=1)] = 1000,
    max_width: Annotated[int, typer.Option(help="Dimensions of a vector.", min=1)] = 65_536,
    threads: Annotated[int, typer.Option(help="Threads for searches.", min=1)] = 4,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a temporary collection of real data.")] = False,
    dataset: Annotated[
        str | None, typer.Option(help="Data set of --demo.", show_default="MNIST if it is on this machine, else digits")
    ] = None,
) -> None:
    """Serve a collection over HTTP until stopped.

    The routes are listed in /openapi.json. Acknowledged changes are on disk; running requests finish before a stop.
    """
    if demo == (target is not None):
        raise typer.BadParameter("give a collection or --demo, one of the two.")
    from onlinehash.demo.stream import make_demo_routes, open_demo
    from onlinehash.service import ApiKeys, Limits, create_app, server

    keys = ApiKeys.gather(os.environ, read_keys, write_keys)
    limits = Limits(
        max_body_bytes=max_body << 20,
        max_batch_size=max_batch,
        max_k=max_k,
        max_dimensions=max_width,
        n_threads=threads,
    )
    with ExitStack() as stack:
        listening = stack.enter_context(server.listen(host, port, keys))
        if target is None:
            shown = stack.enter_context(open_demo(dataset))
            collection, routes = shown.collection, make_demo_routes(shown, keys)
        else:
            hasher = None if target.exists() or method is None else registered(method)
            collection, routes = target.open(hasher, readonly=readonly, search=search), []
            stack.callback(collection.close, refresh=False)  # a stop must not wait for a refresh
        app = create_app(collection, limits=limits, keys=keys, routes=routes)
        note(f"Serving {len(collection)} items on {server.url_of(listening)} (Ctrl-C stops)")
        server.run(app, listening, limits)
