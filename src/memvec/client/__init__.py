"""Collections of a server, used like local ones; needs the extra ``memvec[server]``."""

from memvec.client._async import AsyncClient, AsyncRemoteCollection, AsyncStream
from memvec.client._client import Client, RemoteCollection
from memvec.client._records import (
    Record,
    certificate_text,
    duplicates_record,
    explanation_record,
    health_record,
    hits_record,
    item_record,
    measurement_record,
    searched_record,
    settings_record,
    top_record,
)

__all__ = [
    "AsyncClient",
    "AsyncRemoteCollection",
    "AsyncStream",
    "Client",
    "Record",
    "RemoteCollection",
    "certificate_text",
    "duplicates_record",
    "explanation_record",
    "health_record",
    "hits_record",
    "item_record",
    "measurement_record",
    "searched_record",
    "settings_record",
    "top_record",
]
