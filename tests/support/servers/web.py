"""Requests to an object server without a client library. Each function sends one request."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http.client import HTTPConnection, HTTPException

from .base import HOST, ServerFailed


@dataclass(frozen=True)
class Answer:
    """Answer to a request."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def request(
    port: int, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Answer:
    """Send one request on a new connection. Raises OSError or HTTPException if no answer arrives."""
    connection = HTTPConnection(HOST, port, timeout=30)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, response.read(), names)
    finally:
        connection.close()


def answers(port: int) -> bool:
    """Return whether any answer arrives."""
    try:
        return request(port, "GET", "/").status < 500
    except (OSError, HTTPException):
        return False


def must(answer: Answer, *statuses: int) -> None:
    """Raise `ServerFailed` if the status of the answer is none of these."""
    if answer.status not in statuses:
        raise ServerFailed(f"answered {answer.status}: {answer.body[:500].decode(errors='replace')}")


def s3_headers(
    method: str, path: str, headers: Mapping[str, str] | None = None, *, access_key: str, secret_key: str
) -> dict[str, str]:
    """Return the headers of a request to S3 with signature version 2, which Ceph accepts."""
    date = formatdate(usegmt=True)
    resource = path.partition("?")[0]
    signature = _hmac(secret_key.encode(), f"{method}\n\n\n{date}\n{resource}", "sha1")
    return {**(headers or {}), "Date": date, "Authorization": f"AWS {access_key}:{signature}"}


def azure_headers(
    method: str, path: str, headers: Mapping[str, str] | None = None, *, account: str, key: str, length: int = 0
) -> dict[str, str]:
    """Return the headers of a request to Azure Blob Storage, signed with the account key ("Shared Key")."""
    sent = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02", **(headers or {})}
    given = {name.lower(): value for name, value in sent.items()}
    standard = ["content-encoding", "content-language", "content-length", "content-md5", "content-type", "date"]
    standard += ["if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"]
    given["content-length"] = str(length or "")
    ours = [f"{name}:{given[name]}" for name in sorted(given) if name.startswith("x-ms-")]
    resource, _, query = path.partition("?")
    asked = [pair.replace("=", ":", 1) for pair in sorted(query.split("&")) if pair]
    text = "\n".join([method, *[given.get(name, "") for name in standard], *ours, f"/{account}{resource}", *asked])
    signature = _hmac(base64.b64decode(key), text, "sha256")
    return {**sent, "Authorization": f"SharedKey {account}:{signature}"}


def _hmac(key: bytes, text: str, algorithm: str) -> str:
    return base64.b64encode(hmac.new(key, text.encode(), algorithm).digest()).decode()
