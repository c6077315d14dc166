"""The one server there is: loopback alone, a token in its address, GET of four paths, headers that forbid the rest."""

from __future__ import annotations

import ast
import socket
from pathlib import Path

import pytest

from asked import ask, served
from gapo.report.live import LOOPBACK
from gapo.report.markup import tag
from made_runs import make_run
from pages_read import directives

PACKAGE = Path(__file__).parents[2] / "src" / "gapo"
SECRET = "objective"  # a word of recipe.yaml


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gapo.report.elements.inline_svg", lambda drawn, *, key, label: tag("svg", id=key))
        with served(make_run(tmp_path_factory.mktemp("served"), steps=2)) as found:
            yield found


def raw(server, request: bytes) -> bytes:
    """What comes back for these very bytes: no client mends them on the way."""
    with socket.create_connection((LOOPBACK, server.server_port), timeout=20) as line:
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        parts = iter(lambda: line.recv(65536), b"")
        return b"".join(parts)


def test_it_listens_on_loopback_and_nowhere_else(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError, match=r".*"), socket.create_connection((address, server.server_port), timeout=2):
            pytest.fail(f"answers on {address}")


def test_every_answer_has_the_headers_that_forbid(server):
    at = f"/{server.token}/"
    asked = [(at, "GET", None), ("/", "GET", None), (at, "POST", None), (f"{at}status", "GET", "evil.example")]
    asked += [(f"{at}{name}", "GET", None) for name in ("status", "page", "report")]
    seen = set()
    for path, method, host in asked:
        status, headers, _ = ask(server, path, method, host=host)
        seen.add(status)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        policy = directives(headers["Content-Security-Policy"])
        assert policy["frame-ancestors"] == ["'none'"]
        assert path == f"{at}report" or policy["default-src"] == ["'none'"]  # that page brings its own
        assert headers["Server"] == "gapo"
        assert "Access-Control-Allow-Origin" not in headers
    assert seen == {200, 403, 404, 405}


@pytest.mark.parametrize(
    "path",
    [
        "/{t}/../recipe.yaml", "/{t}/%2e%2e/recipe.yaml", "/{t}/..%5crecipe.yaml", "/{t}//etc/passwd",
        "/{t}/./status", "/{t}/status%00", "/{t}/report/../recipe.yaml", "/../{t}/status", "/%7B{t}%7D/status",
        "/{t}/recipe.yaml", "{t}/status", "*", "file:///etc/passwd", "http://evil.example/{t}/status",
    ],
)  # fmt: skip
def test_no_path_leads_to_a_file(server, path):
    line = path.replace("{t}", server.token)
    answer = raw(server, f"GET {line} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode())
    assert answer.split(b" ", 2)[1] in (b"400", b"403", b"404"), answer[:200]
    assert SECRET.encode() not in answer
    assert b"root:" not in answer


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /{t}/status\r\n\r\n",  # HTTP/0.9 sends no Host at all
        b"GET /{t}/status HTTP/1.1\r\n\r\n",
        b"GET /{t}/status HTTP/1.1\r\nHost: 127.0.0.1:{p}\r\nHost: evil.example\r\n\r\n",
        b"GET /{t}/status HTTP/1.1\r\nHost: 127.0.0.1:{p}.evil.example\r\n\r\n",
        b"GET /{t}/status HTTP/1.1\r\nHost: [::1]:{p}\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1:{p}\r\n\r\n",
    ],
)
def test_a_request_without_the_one_right_host_learns_nothing(server, request_line):
    filled = request_line.replace(b"{t}", server.token.encode()).replace(b"{p}", str(server.server_port).encode())
    answer = raw(server, filled)
    assert b"200 OK" not in answer
    assert b'"state"' not in answer


def test_nothing_in_the_source_listens_anywhere_else():
    """Each bind and each server names loopback."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in ("0.0.0.0", "::"), path
        assert "http.server" not in path.read_text() or path.name == "live.py", path
