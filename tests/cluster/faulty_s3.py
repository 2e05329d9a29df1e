# SPDX-License-Identifier: Apache-2.0
"""A server of S3's protocol on loopback, of which requests fail or are cut when a test says so."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

BUCKET = "bucket"
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Storage:
    """Of moto, with faults before it. Keeps everything in memory."""

    def __init__(self) -> None:
        pytest.importorskip("moto.moto_server", reason="needs moto: pip install 'moto[server]'")
        import moto.backends
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        moto.backends.get_backend("s3").reset()  # it is one for all of this process
        self.application: Any = DomainDispatcherApplication(create_backend_app)
        self.faults: list[Fault] = []
        self.lock = threading.Lock()
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.system.create_dir(BUCKET)

    def uri(self, path: str) -> str:
        return (f"s3://key:secret@{BUCKET}/{path}?endpoint_override=127.0.0.1%3A{self.server.port}&scheme=http"
                "&region=us-east-1&allow_bucket_creation=true")

    @property
    def system(self) -> Any:
        from pyarrow import fs

        return fs.FileSystem.from_uri(self.uri(""))[0]

    def names(self, path: str) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(f"{BUCKET}/{path}", allow_not_found=True, recursive=True)
        return sorted(info.base_name for info in self.system.get_file_info(selector) if info.type == fs.FileType.File)

    def answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self.lock:
            fault = next((fault for fault in self.faults if fault.meets(environ)), None)
            if fault is not None:
                fault.count += 1  # here, or as many requests again could fail as come at the same time
        if fault is None:
            answer: Iterable[bytes] = self.application(environ, start)
            return answer
        if fault.cut:  # the length is that of the whole, and the connection ends in the middle
            return [b"".join(self.application(environ, start))[:-1000]]
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(SLOW_DOWN)))])
        return [SLOW_DOWN]

    @contextlib.contextmanager
    def failing(self, method: str, path: str, times: int, cut: bool = False) -> Iterator[Fault]:
        fault = Fault(method, path, times, cut)
        self.faults.append(fault)
        try:
            yield fault
        finally:
            self.faults.remove(fault)

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Fault:
    """Of so many requests of a method, whose paths hold a text."""

    def __init__(self, method: str, path: str, times: int, cut: bool) -> None:
        self.method, self.path, self.times, self.cut = method, path, times, cut
        self.count = 0

    def meets(self, environ: dict[str, Any]) -> bool:
        where = environ["PATH_INFO"] + "?" + environ.get("QUERY_STRING", "")
        return self.count < self.times and environ["REQUEST_METHOD"] == self.method and self.path in where


@contextlib.contextmanager
def storage() -> Iterator[Storage]:
    started = Storage()
    try:
        yield started
    finally:
        started.stop()
