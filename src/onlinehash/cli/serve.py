"""``onlinehash serve``: a collection over HTTP."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from onlinehash.cli._place import PLACE, Place


def run(
    place: Annotated[
        Place | None,
        typer.Argument(metavar="COLLECTION", help=PLACE, parser=Place.parse, show_default=False),
    ] = None,
    *,
    host: Annotated[str, typer.Option(help="Address; any but this machine's own demands keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 for any that is free.", min=0, max=65535)] = 8000,
    method: Annotated[
        str | None,
        typer.Option(
            help="Create the collection, with this hasher (a name, or module:Class), if there is none.",
            show_default=False,
        ),
    ] = None,
    readonly: Annotated[
        bool, typer.Option("--readonly", help="Follow a collection that another process writes.")
    ] = False,
    read_keys: Annotated[
        Path | None,
        typer.Option(help="File with keys that read, one a line; or set ONLINEHASH_READ_KEY.", show_default=False),
    ] = None,
    write_keys: Annotated[
        Path | None,
        typer.Option(help="File with keys that write, one a line; or set ONLINEHASH_WRITE_KEY.", show_default=False),
    ] = None,
    max_body: Annotated[int, typer.Option(help="MiB of one request.", min=1)] = 64,
    max_batch: Annotated[int, typer.Option(help="Items, keys or queries of one request.", min=1)] = 10_000,
    max_k: Annotated[int, typer.Option(help="Neighbours of a query.", min=1)] = 1000,
    max_width: Annotated[int, typer.Option(help="Numbers in a vector.", min=1)] = 65_536,
    threads: Annotated[int, typer.Option(help="Threads that search.", min=1)] = 4,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a collection of real data that ends with it.")] = False,
    dataset: Annotated[
        str | None, typer.Option(help="Data set of --demo.", show_default="MNIST if it is there, else digits")
    ] = None,
) -> None:
    """Serve a collection over HTTP until it is told to stop.

    The routes are listed in /openapi.json. What was acknowledged is on the disk; a stop finishes what has begun.
    """
    if demo == (place is not None):
        raise typer.BadParameter("give a collection or --demo, one of the two.")
    from onlinehash.cli._screen import note
    from onlinehash.cli._settings import registered
    from onlinehash.demo.stream import make_demo_router, open_demo
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
        if place is None:
            shown = stack.enter_context(open_demo(dataset))
            collection, routers = shown.collection, [make_demo_router(shown, keys)]
        else:
            hasher = None if place.exists() or method is None else registered(method)
            collection, routers = place.open(hasher, readonly=readonly), []
            stack.callback(collection.close, refresh=False)  # a stop must not wait for a refresh
        app = create_app(collection, limits=limits, keys=keys, routers=routers)
        note(f"Serving {len(collection)} items on {server.url_of(listening)} (Ctrl-C stops)")
        server.run(app, listening, limits)
