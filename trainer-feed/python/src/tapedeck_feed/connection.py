"""HTTP to a feed's server: one keep-alive connection, errors by the protocol's code, retries with back-off where sending again can help."""

from __future__ import annotations

import http.client
import json
import mmap
import os
import random
import socket
import time
from typing import Any, Callable, Mapping, Optional
from urllib.parse import quote, unquote, urlencode, urlsplit

from .errors import FeedError, LeaseLost
from .incoming import Incoming

RETRY_STATUS = frozenset({408, 429, 500, 502, 503, 504})
FIRST_WAIT_S = 0.1
MAX_WAIT_S = 5.0
READ_CHUNK = 1 << 20


class Answer:
    """Status, headers (lower case) and either JSON or an `Incoming` that has come in whole."""

    def __init__(self, status: int, headers: Mapping[str, str], body: Any) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class Connection:
    """Requests are made one at a time. `patience` bounds how long a request is tried again, seconds."""

    def __init__(self, url: str, *, key: Optional[str] = None, timeout: float = 90.0, patience: float = 300.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError(f"url must be http:// or https:// with a host, got {url!r}")
        self._https = parts.scheme == "https"
        self._address = (parts.hostname, parts.port or (443 if self._https else 80))
        self._prefix = parts.path.rstrip("/")
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._timeout = timeout
        self._patience = patience
        self._http: Optional[http.client.HTTPConnection] = None
        self._jitter = random.Random()

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def get(self, path: str, query: Mapping[str, Any], into: Optional[Callable[[int], Incoming]] = None) -> Answer:
        """`into` gives what a binary body of known length is read into, anew whenever it is tried again; JSON is parsed."""
        return self._retrying("GET", f"{path}?{urlencode(query)}", None, into)

    def head(self, path: str, query: Mapping[str, Any]) -> Answer:
        return self._retrying("HEAD", f"{path}?{urlencode(query)}", None, None)

    def post(self, path: str, query: Mapping[str, Any], body: Mapping[str, Any]) -> Answer:
        """All posts of the protocol may be repeated."""
        return self._retrying("POST", f"{path}?{urlencode(query)}", json.dumps(body, allow_nan=False).encode(), None)

    def _retrying(self, method: str, target: str, body: Optional[bytes], into: Optional[Callable[[int], Incoming]]) -> Answer:
        deadline = time.monotonic() + self._patience
        wait = FIRST_WAIT_S
        while True:
            retry_after: Optional[float] = None
            try:
                answer = self._once(method, target, body, into)
                if answer.status < 400:
                    return answer
                failure: Exception = error_of(answer)
                if answer.status not in RETRY_STATUS:
                    raise failure
                retry_after = _seconds(answer.headers.get("retry-after"))
            except (OSError, http.client.HTTPException, socket.timeout) as cause:
                self.close()
                failure = FeedError("unreachable", f"{self._address[0]}:{self._address[1]} does not answer: {cause!r}")
                failure.__cause__ = cause
            pause = retry_after if retry_after is not None else wait * (0.5 + self._jitter.random())
            if time.monotonic() + pause > deadline:
                raise failure
            time.sleep(pause)
            wait = min(wait * 2, MAX_WAIT_S)

    def _once(self, method: str, target: str, body: Optional[bytes], into: Optional[Callable[[int], Incoming]]) -> Answer:
        if self._http is None:
            kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
            self._http = kind(*self._address, timeout=self._timeout)
            self._http.connect()
            self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        headers = dict(self._headers) if body is None else {**self._headers, "content-type": "application/json"}
        self._http.request(method, self._prefix + target, body=body, headers=headers)
        response = self._http.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        if method == "HEAD":
            response.read()
            return Answer(response.status, found, None)
        if response.status == 200 and into is not None and found.get("content-type", "").startswith("application/vnd.apache.arrow"):
            incoming = into(int(found["content-length"]))
            try:
                read_whole(response, incoming)
            except BaseException:
                incoming.abandon()
                raise
            return Answer(response.status, found, incoming)
        raw = response.read()
        return Answer(response.status, found, json.loads(raw) if raw else None)


def read_whole(response: Any, incoming: Incoming) -> None:
    """Fills the memory from a response, without a copy in between."""
    view, at = incoming.memory, 0
    while at < len(view):
        count = response.readinto(view[at : at + READ_CHUNK])
        if count == 0:
            raise http.client.IncompleteRead(b"", len(view) - at)
        at += count
        incoming.filled(at)
    response.read()  # the end of the body, so that the connection can be used again


def map_file(header: str, size: int) -> Optional[mmap.mmap]:
    """The file a server on this machine names, mapped; None when it cannot be read here or is not the announced one."""
    path = unquote(header)
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size != size:
                return None
            if not hasattr(mmap, "MAP_POPULATE"):
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            # all pages at once: every byte will be hashed, and a fault for each is dearer
            return mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ)
    except (OSError, ValueError):
        return None


def error_of(answer: Answer) -> FeedError:
    error = answer.body.get("error", {}) if isinstance(answer.body, dict) else {}
    code, message = str(error.get("code", answer.status)), str(error.get("message", "the server gave no reason"))
    kind = LeaseLost if code == "lease_lost" else FeedError
    return kind(code, message, error.get("details"))


def path_of(feed: str, *parts: str) -> str:
    return "/".join(["/v1/feeds", quote(feed, safe=""), *parts])


def _seconds(text: Optional[str]) -> Optional[float]:
    try:
        return None if text is None else min(float(text), 60.0)
    except ValueError:
        return None
