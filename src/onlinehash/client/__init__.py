"""Clients of the service: the methods of a collection, over HTTP."""

from onlinehash.client.async_client import AsyncClient
from onlinehash.client.client import Client
from onlinehash.exceptions import ServiceError

__all__ = ["AsyncClient", "Client", "ServiceError"]
