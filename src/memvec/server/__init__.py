"""A server of collections: HTTP, and a page for the browser; needs ``memvec[server]``."""

from memvec.server._app import create_app, serve
from memvec.server._keys import Key, KeyFile
from memvec.server._settings import Limits, ServerSettings, is_loopback

__all__ = [
    "Key",
    "KeyFile",
    "Limits",
    "ServerSettings",
    "create_app",
    "is_loopback",
    "serve",
]
