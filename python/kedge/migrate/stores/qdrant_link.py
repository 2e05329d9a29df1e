# SPDX-License-Identifier: Apache-2.0
"""Connections to Qdrant: one client for each local folder, which Qdrant locks, and sentences for what goes wrong."""
from __future__ import annotations

import atexit
import contextlib
import os
import pathlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping

import httpx
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from ..._address import secret, uses_https
from ..._errors import BadFile, Error
from ..store import Missing
from .files import reason_for

TIMEOUT = 300   # seconds; a server that indexes may take its time over a write
_folders: dict[str, Folder] = {}   # the path of a folder: its Folder
_changing = threading.Lock()


class Folder:
    """The client of a local folder, shared by all stores in it, which use it one after the other."""

    def __init__(self, path: str) -> None:
        self.client = QdrantClient(path=path, force_disable_check_same_thread=True)
        self.lock = threading.RLock()
        self.users = 0


class Link:
    """How a store reaches its Qdrant; nothing is opened before the first question."""

    def __init__(self, address: str, place: str, remote: bool, options: Mapping[str, str]) -> None:
        self.address, self.place, self.remote, self.options = address, place, remote, options
        self._client: QdrantClient | None = None
        self._folder: Folder | None = None

    @contextlib.contextmanager
    def asking(self, doing: str) -> Iterator[QdrantClient]:
        """The client, for one question; an answer that is an error becomes a sentence."""
        with self._errors(doing):
            client = self._open()
        with self._folder.lock if self._folder else contextlib.nullcontext(), self._errors(doing):
            yield client

    def _open(self) -> QdrantClient:
        if self._client is not None:
            return self._client
        if self.remote:
            self._client = self._server()
            return self._client
        path = os.path.realpath(self.place)
        if not pathlib.Path(path, "meta.json").is_file():
            raise Missing(f"{self.address}: there is no folder of Qdrant's local mode at {self.place}")
        with _changing:
            if path not in _folders:
                _folders[path] = Folder(path)
            self._folder = _folders[path]
            self._folder.users += 1
        self._client = self._folder.client
        return self._client

    def _server(self) -> QdrantClient:
        key = secret(self.address, self.options, "api_key_env", "API key")
        host = self.place if ":" in self.place.rpartition("]")[2] else self.place + ":6333"
        return QdrantClient(url=f"{'https' if uses_https(self.options) else 'http'}://{host}", api_key=key,
                            timeout=TIMEOUT, check_compatibility=False)

    def close(self) -> None:
        client, self._client = self._client, None
        folder, self._folder = self._folder, None
        if folder is None:
            if client is not None:
                client.close()
            return
        with _changing:
            folder.users -= 1
            if not folder.users:
                _folders.pop(os.path.realpath(self.place), None)
                folder.client.close()

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except UnexpectedResponse as error:
            raise Error(f"{self.address}: cannot {doing} it: {answer(error)}") from None
        except (ApiException, httpx.HTTPError) as error:
            reason = str(getattr(error, "source", error)) or type(error).__name__
            raise Error(f"{self.address}: cannot {doing} it: no answer from {self.place} ({reason}); is the server "
                        "running, and is this its HTTP port?") from None
        except (sqlite3.Error, OSError) as error:
            raise Error(f"{self.address}: cannot {doing} it: {reason_for(str(error)) or error}") from None
        except RuntimeError as error:
            if "already accessed" not in str(error):
                raise Error(f"{self.address}: cannot {doing} it: {error}") from None
            raise Error(f"{self.address}: another process has this folder open, and Qdrant's local mode lets in only "
                        "one; end the other, or run a Qdrant server") from None
        except (ValueError, KeyError) as error:
            kind = Error if self._client is not None else BadFile
            raise kind(f"{self.address}: cannot {doing} it: {error}") from None


def answer(error: UnexpectedResponse) -> str:
    """What the server said was wrong."""
    if error.status_code in (401, 403):
        return "the server refuses this API key; name the variable that holds it with ?api_key_env="
    try:
        said = error.structured()["status"]["error"]
    except (ValueError, KeyError, TypeError):
        said = f"{error.reason_phrase}: {error.content[:200]!r}"
    return f"the server answers {error.status_code}, {said}"


@atexit.register
def _close_all() -> None:
    for folder in list(_folders.values()):
        folder.client.close()
