"""The service: a collection over HTTP."""

from onlinehash.exceptions import MissingExtraError

try:
    from onlinehash.service.app import create_app
    from onlinehash.service.keys import Keys
    from onlinehash.service.limits import Limits
    from onlinehash.service.server import serving
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("onlinehash"):
        raise
    raise MissingExtraError.of(error.name, "serve") from None

__all__ = ["Keys", "Limits", "create_app", "serving"]
