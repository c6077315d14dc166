"""A real HTTP server on loopback that speaks like a judge, or misbehaves as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def completion(text: str = "m", *, finish: str = "stop", model: str = "judge-1", logprobs=None) -> dict[str, Any]:
    """A chat completion; `logprobs` are those of the first token's alternatives."""
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    if logprobs is not None:
        alternatives = [{"token": token, "logprob": value, "bytes": None} for token, value in logprobs.items()]
        choice["logprobs"] = {"content": [{"token": text, "logprob": 0.0, "top_logprobs": alternatives}]}
    usage = {"prompt_tokens": 7, "completion_tokens": 1}
    return {"id": "x", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}


class Says:
    """What the server does with one request."""

    def __init__(self, body: Any = None, status: int = 200, headers=None, wait: float = 0.0, cut: str = "") -> None:
        self.body = completion() if body is None else body
        self.status, self.headers, self.wait, self.cut = status, headers or {}, wait, cut


class Server(ThreadingHTTPServer):
    """Answers by `answer(request body, number of the request)`; keeps all it was asked."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answer: Callable[[dict[str, Any], int], Says]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.lock = threading.Lock()
        self.at_once = self.most_at_once = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address) -> None:
        """A client that left early is what we wanted."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._send(Says({"data": []}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(body)
            self.server.keys.append(self.headers.get("Authorization"))
            number = len(self.server.asked) - 1
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        try:
            says = self.server.answer(body, number)
            time.sleep(says.wait)
        finally:
            with self.server.lock:
                self.server.at_once -= 1
        self._send(says)

    def _send(self, says: Says) -> None:
        content = says.body.encode() if isinstance(says.body, str) else json.dumps(says.body).encode()
        if says.cut == "at once":
            self.close_connection = True
            return
        self.send_response(says.status)
        for name, value in says.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if says.cut == "half way" else content)
        self.close_connection = self.close_connection or bool(says.cut)

    def log_message(self, *words: object) -> None:
        """Silent."""


def in_order(*all_says: Says) -> Callable[[dict[str, Any], int], Says]:
    """One after another; the last goes on for ever."""
    return lambda body, number: all_says[min(number, len(all_says) - 1)]
