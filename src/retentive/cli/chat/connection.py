"""The client of the API. The import of the SDK takes a second, so it runs while the user types the first message."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from retentive.errors import InvalidInput
from retentive.values.extras import pip_install

if TYPE_CHECKING:
    from anthropic import Anthropic

_NO_KEY = (
    "the chat needs an API key: set ANTHROPIC_API_KEY, or specify another endpoint with --base-url.\n"
    "`retentive demo` needs no key: it shows an agent with a memory, and a scripted Claude."
)
_SLOW_IMPORTS = ("retentive.agent.loop", "rich.live", "rich.markdown", "rich.spinner")


class LazyClient:
    """Client of Anthropic's API. It is created when it is first used."""

    def __init__(self, base_url: str | None) -> None:
        self._base_url = base_url
        self._client: Anthropic | None = None

    def client(self) -> Anthropic:
        """Return the client, and create it if needed. Raises `InvalidInput` if there are no credentials."""
        if self._client is None:
            self._client = self._created()
        return self._client

    def _created(self) -> Anthropic:
        from anthropic import Anthropic  # noqa: PLC0415 - slow to import

        from retentive.agent import sdk  # noqa: PLC0415 - imports the SDK

        with sdk.api_errors():
            client = Anthropic(base_url=self._base_url)
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            if self._base_url is None:
                client.close()
                raise InvalidInput(_NO_KEY)
            client.api_key = "none"  # the SDK sends no request without a key
        return client

    def close(self) -> None:
        """Close the client if it was created."""
        if self._client is not None:
            self._client.close()


@contextmanager
def connection(base_url: str | None) -> Iterator[LazyClient]:
    """Context manager that yields a client and closes it at the end.

    If neither an environment variable with a key nor a base URL is given, the client is created at once, because the
    SDK may find credentials in files. Raises `InvalidInput` if there are no credentials or the SDK is not installed.
    """
    if find_spec("anthropic") is None:
        raise InvalidInput(f"`retentive chat` needs the extra `anthropic` of retentive: {pip_install('anthropic')}")
    created = LazyClient(base_url)
    if base_url is None and not (os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
        created.client()
    try:
        yield created
    finally:
        created.close()


def import_in_background() -> None:
    """In a thread, import the SDK and the modules that render Markdown, while the user types the first message."""

    def work() -> None:
        for name in _SLOW_IMPORTS:
            with suppress(ImportError):  # reported when the first message needs it
                importlib.import_module(name)

    threading.Thread(target=work, name="chat-imports").start()
