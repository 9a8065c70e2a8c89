"""The doors of the page: who is let in, what is said, and that nothing is written."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.view.bundle import STYLES, modules
from cortex_replay.view.library import Shelf
from cortex_replay.view.server import ViewServer
from tests.servers.browser import chromium, needs_browser
from tests.view.stores import library_of, make_store

EVERY_HEADER = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def broken() -> object:
    raise ZeroDivisionError("what only we should know")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("store") / "llm")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[ViewServer]:
    shelf = Shelf("<b>Recordings</b>", further={"change": broken})
    with ViewServer(library_of(root, shelf=shelf)).running() as made:
        yield made


class Reply:
    """What came back, as bytes on a socket."""

    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    server: ViewServer, path: str, *lines: str, method: str = "GET", host: str | None = None, token: str = ""
) -> Reply:
    """One call, on a connection of its own."""
    named = f"127.0.0.1:{server.port}" if host is None else host
    start = token or f"/t-{server.token}"
    head = [
        f"{method} {start}{path} HTTP/1.1",
        *([f"host: {named}"] if named else []),
        "connection: close",
        *lines,
    ]
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        received = b""
        while data := connection.recv(65536):
            received += data
    return Reply(received)


def test_it_stands_on_loopback_and_its_address_has_the_token(server: ViewServer) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/t-{server.token}/"
    assert len(bytes.fromhex(server.token)) == 32


def test_the_page_has_everything_beside_it(server: ViewServer) -> None:
    page = ask(server, "/")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert b"<title>&lt;b&gt;Recordings&lt;/b&gt;</title>" in page.body
    for name in (*modules(), *STYLES):
        found = ask(server, f"/assets/{name}")
        assert found.status == 200
        assert found.headers["content-type"].startswith("text/css" if name in STYLES else "text/javascript")


def test_documents_are_json(server: ViewServer) -> None:
    store = ask(server, "/data/store")
    [row, *_] = store.json["calls"]

    assert store.headers["content-type"] == "application/json"
    assert ask(server, f"/data/calls/{row['id']}").json["id"] == row["id"]
    assert ask(server, f"/data/raw/{row['id']}").headers["content-type"] == "application/json"
    assert ask(server, "/data/search?q=OSLO").json["found"][0]["match"] == "Oslo"
    assert ask(server, "/data/page").json["is_file"] is False


@pytest.mark.parametrize(
    ("path", "lines", "more", "status"),
    [
        ("/", (), {"host": ""}, 403),
        ("/", (), {"host": "evil.example"}, 403),
        ("/", (), {"host": "127.0.0.1"}, 403),
        ("/", (), {"token": "/"}, 401),
        ("/data/store", (), {"token": "/t-wrong"}, 401),
        ("/assets/app.js", (), {"token": "/t-"}, 401),
        ("/data/store", ("origin: http://evil.example",), {}, 403),
        ("/data/store", ("origin: null",), {}, 403),
        ("/data/store", ("sec-fetch-site: cross-site",), {}, 403),
        ("/data/store", ("sec-fetch-site: same-site",), {}, 403),
        ("/data/store", ("sec-fetch-site: same-origin",), {}, 200),
        ("/", ("sec-fetch-site: none",), {}, 200),
        ("/", (), {"method": "POST"}, 405),
        ("/data/store", (), {"method": "PUT"}, 405),
        ("/data/store", (), {"method": "DELETE"}, 405),
        ("/data/store", (), {"method": "OPTIONS"}, 405),
        ("/data/nothing", (), {}, 404),
        ("/assets/nothing.js", (), {}, 404),
        ("/assets/../server.py", (), {}, 400),
        ("/assets/%2e%2e/server.py", (), {}, 400),
        ("/assets/..%2fserver.py", (), {}, 400),
        ("/data/raw/%2fetc%2fpasswd", (), {}, 404),
        ("/data/raw/INDEX.toml", (), {}, 404),
        ("/elsewhere", (), {}, 404),
    ],
    ids=str,
)
def test_who_is_let_in(
    server: ViewServer, path: str, lines: tuple[str, ...], more: dict[str, str], status: int
) -> None:
    reply = ask(server, path, *lines, **more)

    assert reply.status == status
    assert {name: reply.headers.get(name) for name in EVERY_HEADER} == EVERY_HEADER
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert policy.endswith("frame-ancestors 'none'")
    assert "unsafe" not in policy
    assert not [name for name in reply.headers if name.startswith("access-control")]
    assert reply.headers["content-type"] != "text/html; charset=utf-8" or path == "/"


def test_a_question_of_too_many_fields_is_none(server: ViewServer) -> None:
    assert ask(server, f"/data/search?{'a=b&' * 50}q=Oslo").json == {"found": [], "is_cut": False}


def test_an_origin_of_its_own_is_let_in(server: ViewServer) -> None:
    assert ask(server, "/data/page", f"origin: http://127.0.0.1:{server.port}").status == 200


def test_an_address_without_its_last_slash_leads_to_the_page(server: ViewServer) -> None:
    reply = ask(server, "")

    assert (reply.status, reply.headers["location"]) == (308, f"/t-{server.token}/")


def test_a_head_has_no_body(server: ViewServer) -> None:
    whole, head = ask(server, "/data/store"), ask(server, "/data/store", method="HEAD")

    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]


def test_a_mistake_of_ours_tells_nothing(server: ViewServer) -> None:
    reply = ask(server, "/data/change")

    assert (reply.status, reply.body) == (500, b"cortex-replay: internal error (ZeroDivisionError)")


def test_a_websocket_is_refused(server: ViewServer) -> None:
    upgrade = (
        "upgrade: websocket",
        "connection: upgrade",
        "sec-websocket-version: 13",
        "sec-websocket-key: " + "A" * 22 + "==",
    )

    assert ask(server, "/", *upgrade).status == 403


def test_nothing_is_written(server: ViewServer, root: Path) -> None:
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")}
    for row in ask(server, "/data/store").json["calls"]:
        ask(server, f"/data/calls/{row['id']}")
        ask(server, f"/data/raw/{row['id']}")
    ask(server, "/data/search?q=the")

    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")} == before


def test_a_store_that_breaks_is_told_in_a_sentence(tmp_path: Path) -> None:
    root = make_store(tmp_path / "llm")
    with ViewServer(library_of(root)).running() as server:
        assert ask(server, "/data/store").status == 200
        (root / "INDEX.toml").write_text("nonsense\n")
        reply = ask(server, "/data/store")

    assert reply.status == 409
    assert reply.body.startswith(b"cortex-replay: fixture integrity failed: INDEX.toml")


@needs_browser
def test_a_browser_shows_the_store_and_asks_nobody_else(server: ViewServer) -> None:
    asked: list[str] = []
    problems: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{server.url}#/store")
        page.get_by_role("searchbox").fill("fjord")
        page.get_by_text("POST /v1/embeddings").first.wait_for()
        page.get_by_text("get_weather").first.wait_for(state="detached")

    assert problems == []
    assert [url for url in asked if not url.startswith(server.url)] == []
