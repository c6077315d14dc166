"""A live server in a thread, and questions to it as raw as they are wanted."""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager

from gapo.report.live import LiveServer


@contextmanager
def served(folder, port: int = 0):
    with LiveServer(folder, port) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def ask(server, path: str, method: str = "GET", host: str | None = None, body: bytes | None = None):
    """Status, headers and content."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    headers = {"Host": host} if host is not None else {}
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content
