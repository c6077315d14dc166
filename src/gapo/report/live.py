"""A server on loopback that shows one run while it is at work, and nothing else of the disk.

The address holds a random token, so that other users and pages cannot guess it; the Host header must name loopback, so
that a foreign name which resolves here (DNS rebinding) is refused. Only GET, and only four paths, each made in memory.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gapo.errors import InputError
from gapo.report.live_page import shell, shell_policy
from gapo.report.run_files import read_run
from gapo.report.run_page import run_page
from gapo.report.standing import ENDED, Standing, Watcher

LOOPBACK = "127.0.0.1"
HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
BETWEEN, TIMES = 4.0, 8.0  # a page is drawn at most so often: every 4 s, and in an eighth of one core's time
NO_FRAMES = "frame-ancestors 'none'"  # the page brings the rest of its policy itself
NOTHING = f"default-src 'none'; {NO_FRAMES}"  # what is no page of its own may do nothing, whoever opens it


class Drawing:
    """The run's page, drawn again when the run has moved on, but not so often that drawing slows training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._page, self._stamp = b"", ""
        self._next = 0.0

    def due(self, standing: Standing) -> str:
        """The stamp of what `page` would give now."""
        waits = time.monotonic() < self._next and standing.state != ENDED
        return self._stamp if self._stamp and waits else standing.stamp

    def page(self, standing: Standing) -> tuple[bytes, str]:
        """Header and sections of the page, and its stamp."""
        with self._lock:
            if self.due(standing) != self._stamp:
                began = time.monotonic()
                run = read_run(self.folder, growing=standing.state != ENDED)
                self._page, self._stamp = inside(run_page(run, growing=True)).encode(), standing.stamp
                now = time.monotonic()
                self._next = now + max(BETWEEN, TIMES * (now - began))
            return self._page, self._stamp

    def whole(self) -> bytes:
        """The page with the explorer, as `gapo report` writes it."""
        with self._lock:
            return run_page(read_run(self.folder)).encode()


def inside(page: str) -> str:
    """What stands between the head of a document and its footer: the live page has its own."""
    return page[page.index("<header>") : page.index("<footer>")]


class LiveServer(ThreadingHTTPServer):
    """Serves one run on loopback until it is closed."""

    daemon_threads = True

    def __init__(self, folder: Path | str, port: int = 0) -> None:
        run = read_run(folder, growing=True)  # a folder that is no run is refused before a port is taken
        self.name = run.name
        self.watcher, self.drawing = Watcher(run.folder, run.recipe), Drawing(run.folder)
        self.looking = threading.Lock()
        self.token = secrets.token_urlsafe(18)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InputError(f"port {port} of {LOOPBACK} cannot be used ({error}); choose another --port") from None
        self.hosts = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def standing(self) -> Standing:
        """Where the run stands now."""
        with self.looking:
            return self.watcher.look()

    def server_bind(self) -> None:
        """Without asking a name server for this machine's name."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = LOOPBACK, self.server_address[1]

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that leaves in the middle is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            self._answer(HTTPStatus.FORBIDDEN, b"this server answers only to loopback\n", TEXT)
            return
        _, given, *rest = self.path.split("/") if self.path.count("/") == 2 else ("", "", "")
        known = secrets.compare_digest(given.encode("utf-8", "replace"), self.server.token.encode())
        answers = {"": self._shell, "status": self._status, "page": self._page, "report": self._report}
        answer = answers.get("/".join(rest)) if known else None
        if answer is None:
            self._answer(HTTPStatus.NOT_FOUND, b"nothing here\n", TEXT)
            return
        try:
            answer()
        except InputError as error:  # the run was moved away
            self._answer(HTTPStatus.GONE, f"{error}\n".encode("utf-8", "replace"), TEXT)

    def _shell(self) -> None:
        page = shell(self.server.name).encode("utf-8", "replace")
        self._answer(HTTPStatus.OK, page, HTML, {"Content-Security-Policy": shell_policy()})

    def _status(self) -> None:
        standing = self.server.standing()
        content = {**standing.as_json(), "page": self.server.drawing.due(standing)}
        self._answer(HTTPStatus.OK, json.dumps(content).encode(), JSON)

    def _page(self) -> None:
        page, stamp = self.server.drawing.page(self.server.standing())
        self._answer(HTTPStatus.OK, page, HTML, {"ETag": stamp})

    def _report(self) -> None:
        self._answer(HTTPStatus.OK, self.server.drawing.whole(), HTML, {"Content-Security-Policy": NO_FRAMES})

    def parse_request(self) -> bool:
        """Every other method is refused before anything of the request is looked at."""
        if not super().parse_request():
            return False
        if self.command == "GET":
            return True
        self.close_connection = True  # whatever the request carries is not read
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET\n", TEXT, {"Allow": "GET"})
        return False

    def _answer(self, status: HTTPStatus, content: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": NOTHING,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            **({"Connection": "close"} if self.close_connection else {}),
            **(more or {}),
        }
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def version_string(self) -> str:
        """No version of anything."""
        return "gapo"

    def log_message(self, format: str, *words: object) -> None:
        """Silent."""
