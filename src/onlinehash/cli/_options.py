"""Options that several commands have, and what their values mean."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from onlinehash._internal.validation import check_choice
from onlinehash.types import Rescore

if TYPE_CHECKING:
    from onlinehash.hashers import OnlineHasher
    from onlinehash.tables import Columns

_DEFAULT_METHOD = "hroh"


def _parse_where(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        example = json.dumps({"price": {"$lt": 20}})
        raise typer.BadParameter(f"it is not JSON; write it as '{example}'.") from None


def _parse_refresh(text: str | None) -> Any:
    """Return "auto", "manual" or a number of instances."""
    if text is None:
        return None
    if text not in ("auto", "manual") and not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is not auto, manual or a number.")
    return int(text) if text.isdecimal() else text


Method = Annotated[
    str | None, typer.Option(help="Name of the hasher, or module:Class of your own.", show_default=_DEFAULT_METHOD)
]
Bits = Annotated[int | None, typer.Option(help="Length of the codes.", show_default="32")]
NewBits = Annotated[
    int | None, typer.Option(help="Length of the codes.", show_default="64, half of them general; with --method, 32")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter; repeatable.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of a new hasher.", show_default="0")]
Refresh = Annotated[
    str | None,
    typer.Option(
        metavar="auto|manual|N",
        help="When to encode all items again: auto, when what was learned has doubled and when no more items arrive; "
        "manual, by 'onlinehash collection refresh'; or after every N instances.",
        show_default="auto",
        callback=_parse_refresh,
    ),
]
Dtype = Annotated[
    str | None, typer.Option(metavar="float32|float16", help="Type of the stored vectors.", show_default="float32")
]
Protocol = Annotated[str, typer.Option(metavar="online|published", help="How to split the data set.")]
Engine = Annotated[
    str | None,
    typer.Option(
        "--search",
        metavar="ENGINE",
        help="What searches the codes: memory, faiss, or milvus: and an address or a .db file.",
        show_default="memory",
    ),
]
Embed = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Embedder of documents: use, char_ngrams, or KIND:MODEL.",
        show_default="that of the collection",
    ),
]
Id = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the ids.", show_default="id, ids, _id, key or keys")
]
Vectors = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMNS",
        help="One column of lists; or columns of numbers: a pattern like 'f*' or a range like x0:x383.",
        show_default="vectors, or all numbers that are nothing else",
    ),
]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="COLUMNS", help="Leave out a column, a pattern or a range; repeatable.")
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a .csv names the columns.",
        show_default="--header",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
K = Annotated[int | None, typer.Option("-k", help="Number of nearest items to find.", show_default="10")]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="JSON", help='Only items whose payload passes, as in \'{"price": {"$lt": 20}}\'.', callback=_parse_where
    ),
]
RescoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="How to order the items whose codes are nearest: learned; cosine or l2, by their vectors; none, by their "
        "codes alone; auto, learned where the hasher scores classes, else none.",
        show_default="auto",
    ),
]
Asymmetric = Annotated[
    bool, typer.Option("--asymmetric", help="Compare the real values of the query with the bits of the codes.")
]
Label = Annotated[
    list[str] | None, typer.Option("--label", metavar="LABEL", help="Only items with this label; repeatable.")
]
MODEL = "A saved hasher or encoder, or the file of a collection."
LABELS = "Column of the labels, by default labels or label, y in a .npz; for .npy, the file of the labels."


def hasher_parameters(bits: int | None, settings: list[str] | None, seed: int | None) -> dict[str, Any]:
    """Return the parameters given with --bits, --set and --seed."""
    given = {"n_bits": bits, "random_state": seed}
    return {name: value for name, value in given.items() if value is not None} | dict(
        map(parse_setting, settings or ())
    )


def parse_setting(setting: str) -> tuple[str, Any]:
    """Return name and value; the value is JSON where it can be, else text.

    Examples
    --------
    >>> parse_setting("slope=2.5"), parse_setting("gradient=exact")
    (('slope', 2.5), ('gradient', 'exact'))
    """
    name, equals, text = setting.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{setting!r} is not NAME=VALUE.", param_hint="--set")
    try:
        return name, json.loads(text)
    except json.JSONDecodeError:
        return name, text


def registered(method: str | None) -> str:
    """Return the name of a hasher, HROH by default; ``module:Class`` is imported and registered first."""
    method = method or _DEFAULT_METHOD
    if ":" not in method:
        return method
    from onlinehash.experiments.custom import load_class
    from onlinehash.hashers import register_hasher

    own: type[OnlineHasher] = register_hasher(load_class(method))
    return own.name


def hasher_from_options(method: str | None, given: dict[str, Any]) -> OnlineHasher:
    """Return a hasher with the parameters given, with the seed 0 by default."""
    from onlinehash.hashers import make_hasher

    return make_hasher(registered(method), **{"random_state": 0} | given)


def collection_hasher(method: str | None, given: dict[str, Any]) -> OnlineHasher:
    """Return what a new collection learns with: without a method, the default hasher of a collection."""
    if method is None:
        from onlinehash.collection.learner import default_hasher

        usual = default_hasher(given["n_bits"]) if "n_bits" in given else default_hasher()
        given = {"n_bits": usual.n_bits, "general_bits": usual.general_bits} | given
    return hasher_from_options(method, given)


def rescore_of(text: str | None) -> str | None:
    """Return how to order items, as :meth:`Collection.search` takes it."""
    rescore = check_choice("rescore", text or "auto", (*get_args(Rescore), "none"))
    return None if rescore == "none" else rescore


def typed(texts: list[str] | None, kind: str | None) -> list[Any]:
    """Return ids or labels as the collection has them: integers or text."""
    given = texts or []
    wrong = [text for text in given if kind == "int" and not text.removeprefix("-").isdecimal()]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is not an integer; those of this collection are.")
    return [int(text) if kind == "int" else text for text in given]


def columns(vectors: str | None, ignore: list[str] | None, header: bool | None, **others: str | None) -> Columns:
    """Return the columns of a file that options name."""
    from onlinehash.tables import Columns

    return Columns(vectors=vectors, ignore=ignore or (), header=header, **others)
