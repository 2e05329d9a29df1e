# SPDX-License-Identifier: Apache-2.0
"""A server on loopback that answers as the APIs of OpenAI, Voyage and Cohere do, and notes what it is asked."""
import base64
import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

WIDTH = 8


def vector(text: str, kind: str | None = None) -> np.ndarray:
    """What the server's model makes of a text."""
    return np.random.default_rng([*text.encode(), *(kind or "").encode()]).standard_normal(WIDTH).astype(np.float32)


class Server(http.server.ThreadingHTTPServer):
    """'asked' has the path, the key and the body of every request; 'busy' answers of 429 come before others."""
    asked: list[tuple[str, str, dict[str, Any]]]
    busy = 0
    at_once = most_at_once = 0
    guard = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.guard:
            self.server.asked.append((self.path, self.headers["Authorization"], body))
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
            self.server.busy -= 1
            busy = self.server.busy >= 0
        try:
            if busy:
                self.answer(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.01"})
            elif body.get("model") == "broken":
                self.answer(400, {"error": {"message": "there is no such model"}})
            else:
                self.answer(200, self.embedded(body))
        finally:
            with self.server.guard:
                self.server.at_once -= 1

    def embedded(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = body.get("input", body.get("texts"))
        assert isinstance(texts, list) and all(texts)
        rows, tokens = [vector(text, body.get("input_type")) for text in texts], sum(map(len, texts))
        if self.path.endswith("/embed"):
            return {"embeddings": {"float": [row.tolist() for row in rows]},
                    "meta": {"billed_units": {"input_tokens": tokens}}}
        as_text = body.get("encoding_format") == "base64"
        data = [{"object": "embedding", "index": n, "embedding": base64.b64encode(row.tobytes()).decode() if as_text
                 else row.tolist()} for n, row in enumerate(rows)]
        return {"object": "list", "model": body["model"], "data": data[::-1],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}

    def answer(self, code: int, found: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        text = json.dumps(found).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(text)),
                            **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serve() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
