"""The service: a collection over HTTP."""

from onlinehash.exceptions import MissingExtraError

try:
    from onlinehash.service.api_keys import ApiKeys
    from onlinehash.service.app import create_app
    from onlinehash.service.limits import Limits
    from onlinehash.service.server import serve_in_thread
except ModuleNotFoundError as error:
    if error.name is None or error.name.startswith("onlinehash"):
        raise
    raise MissingExtraError.of(error.name, "serve") from None

__all__ = ["ApiKeys", "Limits", "create_app", "serve_in_thread"]
