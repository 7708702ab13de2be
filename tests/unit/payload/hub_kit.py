"""A hub on loopback: as much of Hugging Face's protocol as listing and downloading a model needs, with faults."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """What the hub holds, how it misbehaves, and what it was asked.

    Attributes:
        files: contents of the one repository, by path.
        large: those in large-file storage, which the hub lists with a SHA-256.
        status: by path (``""`` is the listing), the answer instead of the right one: status and error code.
        cut: by path, after how many bytes the connection is closed; once each.
        falls_over: whether a path answers 503 once its connection was cut.
        sent: by path, how many bytes of content went out.
        asked: method, path and range of every request.
        tokens: the tokens that came with them.
        listing: what the hub answers instead of its list.
        ignores_ranges: whether it always sends whole files.
        answers: while it is not set, no answer comes.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.repo = "some-org/Toy-MNN"
        self.commit = COMMIT
        self.files = files
        self.large = {"llm.mnn.weight"}
        self.listed: dict[str, bytes] = {}
        self.status: dict[str, tuple[int, str]] = {}
        self.cut: dict[str, int] = {}
        self.falls_over = False
        self.sent: dict[str, int] = {}
        self.asked: list[tuple[str, str]] = []
        self.tokens: set[str | None] = set()
        self.listing: bytes | None = None
        self.ignores_ranges = False
        self.answers = threading.Event()
        self.answers.set()

    def siblings(self) -> list[dict[str, Any]]:
        return [self._sibling(path, self.listed.get(path, content)) for path, content in self.files.items()]

    def _sibling(self, path: str, content: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324  Git's
        told: dict[str, Any] = {"rfilename": path, "size": len(content), "blobId": blob}
        if path in self.large:
            digest = hashlib.sha256(content).hexdigest()
            told |= {"lfs": {"size": len(content), "sha256": digest, "pointerSize": 130}}
        return told


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def handle(self) -> None:
        with suppress(ConnectionError):  # whoever asked has gone
            super().handle()

    def do_GET(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        hub.answers.wait()
        hub.tokens.add(self.headers.get("Authorization"))
        listing = re.fullmatch(rf"/api/models/{hub.repo}(?:/revision/(.+))?", path)
        content = re.fullmatch(rf"/{hub.repo}/resolve/{hub.commit}/(.+)", path)
        if listing:
            hub.asked.append(("", listing[1] or ""))
            self._list(listing[1])
        elif content and content[1] in hub.files:
            hub.asked.append((content[1], self.headers.get("Range", "")))
            self._send(content[1])
        else:
            self._refuse(404, "RepoNotFound")

    def _list(self, revision: str | None) -> None:
        hub = self.hub
        if "" in hub.status:
            return self._refuse(*hub.status[""])
        if revision not in (None, "main", hub.commit):
            return self._refuse(404, "RevisionNotFound")
        body = hub.listing
        if body is None:
            body = json.dumps({"id": hub.repo, "sha": hub.commit, "siblings": hub.siblings()}).encode()
        self._answer(200, body, {"Content-Type": "application/json"})
        return None

    def _send(self, path: str) -> None:
        hub = self.hub
        if path in hub.status:
            return self._refuse(*hub.status[path])
        whole, start = hub.files[path], 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and not hub.ignores_ranges:
            start = int(asked[1])
        end = len(whole)
        if path in hub.cut:
            end = start + hub.cut.pop(path)
            if hub.falls_over:
                hub.status[path] = (503, "")
        headers = {"Content-Length": str(len(whole) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(whole) - 1}/{len(whole)}"
        self.send_response(206 if start else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        hub.sent[path] = hub.sent.get(path, 0) + len(whole[start:end])
        self.wfile.write(whole[start:end])
        self.close_connection = True
        return None

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, b"{}", {"X-Error-Code": code} if code else {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(hub: Hub) -> Iterator[str]:
    """Serve a hub and give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        hub.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
