"""An MCP server over Streamable HTTP, which answers with JSON."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.interception.mcp.tools_server import reply_to

__all__ = ["HttpTools", "serve_tools"]


class HttpTools:
    """Where it is, what it heard, and the headers that came with it."""

    def __init__(self, url: str, heard: list[str], headers: list[dict[str, str]]) -> None:
        self.url = url
        self.heard = heard
        self.headers = headers


@contextlib.contextmanager
def serve_tools() -> Iterator[HttpTools]:
    heard: list[str] = []
    headers: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            heard.append(message.get("method", "answer"))
            headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = reply_to(message)
            body = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(202 if answer is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if message.get("method") == "initialize":
                self.send_header("mcp-session-id", "one")
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_error(405)

        def do_DELETE(self) -> None:
            heard.append("DELETE")
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Not on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield HttpTools(f"http://127.0.0.1:{server.server_address[1]}/mcp", heard, headers)
        finally:
            server.shutdown()
            thread.join()
