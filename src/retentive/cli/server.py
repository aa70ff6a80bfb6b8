"""`serve` and `keys`: run the HTTP server, and manage the API keys of its clients."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any

import click

from retentive.cli import layouts, output
from retentive.cli.location import FILE_VARIABLE, KEYS_VARIABLE, STORAGE_CODES, Location, naming, shown
from retentive.errors import InvalidInput
from retentive.locations import location_exists
from retentive.server.key_store import KeyStore
from retentive.server.keys import DEFAULT_SCOPES, DEFAULT_WORKSPACE, SCOPES, KeyRecord
from retentive.server.options import CONFIG, ServeOptions, read_configuration, settings
from retentive.storage.disk import need_posix
from retentive.store.location_records import LocationRecords

_COLUMNS = ("id", "name", "status", "scopes", "stores", "paths", "created", "last used")
_PATHS = "Limit the key to paths that match, such as /memories/team/**; may be repeated."


def _configure(ctx: click.Context, option: click.Parameter, path: str | None) -> None:
    """Use the settings in a configuration file as defaults of the options."""
    if path is None:
        return
    try:
        found = dict(read_configuration(path))
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, option) from None
    known = ctx.obj if isinstance(ctx.obj, Location) else Location()
    at, keys = found.pop("at", None), found.pop("keys", None)
    if at is not None and "at" not in known.typed and not os.environ.get("RETENTIVE_AT"):
        known = replace(known, url=at)
    if keys is not None and "keys" not in known.typed and not (os.environ.keys() & {KEYS_VARIABLE, FILE_VARIABLE}):
        known = replace(known, keys=keys)
    ctx.obj, ctx.default_map = known, found


def _server_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Decorator that adds options to a command: `--config`, and one option for each setting of the server."""
    for each in reversed(settings()):
        kind = click.IntRange(each.low, each.high) if each.kind is int else each.kind
        shape: dict[str, Any] = {"is_flag": True} if each.kind is bool else {"type": kind}
        names = [each.flag, each.name] if each.default is not True else [f"--{each.flag[5:]}/{each.flag}", each.name]
        function = click.option(
            *names,
            default=each.default,
            show_default=each.kind is not bool and each.default is not None,
            envvar=each.variable,
            metavar=each.metavar or None,
            help=each.text,
            **shape,
        )(function)
    return click.option(
        "--config",
        metavar="FILE",
        envvar=CONFIG,
        is_eager=True,
        expose_value=False,
        callback=_configure,
        help="Configuration file (TOML).",
    )(function)


@output.command("serve")
@_server_settings
def serve(location: Location, **given: Any) -> None:
    """Serve the memory stores over HTTP, until Ctrl-C or SIGTERM.

    The server has the API of Anthropic's hosted memory stores, so Anthropic's SDKs work with it. It also has routes of
    its own; see docs/server.md. Each request needs an API key. The first start on a loopback address creates a key for
    administrators and prints it once. An address that other machines can reach needs TLS. Behind a proxy that encrypts
    the connections, use --insecure-no-tls instead. Settings can also be given by environment variables and in a
    configuration file; see docs/server-configuration.md.
    """
    need_posix("`retentive serve`")
    try:
        from retentive.server import serve as server  # noqa: PLC0415 - imports uvicorn
        from retentive.server.telemetry import PROGRESS  # noqa: PLC0415 - imports prometheus_client
    except ImportError as error:
        raise InvalidInput(str(error)) from None
    key_file = location.keys if os.environ.get(KEYS_VARIABLE) else location.key_file
    options = ServeOptions(location.url, key_file=key_file, pages=_pages(is_wanted=given["console"]), **given)

    def on_start(started: server.Started) -> None:
        if started["first_key"] is not None:
            output.write_line(f"First API key, for administrators; it is not shown again: {started['first_key']}")
        output.write_line("`retentive keys new NAME` creates an API key for a client or a person.")
        if options.pages is not None:
            output.write_line(f"Console for people: {started['url']}/console/")
        output.write_line(f"Serving {shown(location.url)} at {started['url']}")

    on_progress = output.note if sys.stderr.isatty() else PROGRESS.info  # a log file must contain only JSON
    with naming("Location", location.shown):
        location_exists(location.url)  # raises for a place that cannot be one
    with naming("Location", location.shown, codes=STORAGE_CODES | {"permission_denied"}):
        server.serve(options, on_start=on_start, on_progress=on_progress)


def _pages(*, is_wanted: bool) -> str | None:
    """Return the name of the function that creates the routes of the web console.

    Returns None if the console is not wanted, or if its packages are not installed.
    """
    if not is_wanted or any(find_spec(name) is None for name in ("jinja2", "markdown_it", "nh3")):
        return None
    return "retentive.console.web:routes"


@output.group("keys", default="list")
def keys() -> None:
    """Create, list and revoke the API keys of the server's clients.

    Keys are stored hashed at the location. A running server accepts a new key at once, and stops accepting a
    revoked key within 5 seconds.
    """


@output.command("new", group=keys, json='Print a JSON object: {"id", "name", "scopes", "api_key", ...}.')
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=DEFAULT_SCOPES,
    help="Permission of the key; may be repeated. admin includes all others.",
)
@click.option(
    "--stores", metavar="PATTERN", multiple=True, help="Limit the key to this store id or key pattern; repeatable."
)
@click.option("--path", "paths", metavar="PATTERN", multiple=True, help=_PATHS)
@click.option("--act-as", metavar="PATTERN", multiple=True, help="Actors that a request may use; may be repeated.")
@click.option("--principal", metavar="ACTOR", help="Actor of changes, such as user:ann.  [default: the key itself]")
@click.option("--workspace", metavar="ID", default=DEFAULT_WORKSPACE, help="Workspace of the key.")
@click.option("--rate", metavar="N/s", help="Rate limit, such as 50/s or none.  [default: the server's limit]")
@click.option("--max-body", type=click.IntRange(1, 1 << 26), metavar="BYTES", help="Maximum size of a request body.")
@click.option("--expires-in-days", type=click.IntRange(1, 36_500), metavar="DAYS", help="Days until the key expires.")
def new(
    location: Location,
    *,
    name: str,
    scopes: tuple[str, ...],
    stores: tuple[str, ...],
    paths: tuple[str, ...],
    act_as: tuple[str, ...],
    principal: str | None,
    workspace: str,
    rate: str | None,
    max_body: int | None,
    expires_in_days: int | None,
) -> None:
    """Create an API key and print it. It is shown only once."""
    expires = None if expires_in_days is None else datetime.now(UTC) + timedelta(days=expires_in_days)
    with location.opened(create=True) as found:
        made = KeyStore(LocationRecords(found.backend)).create(
            name,
            workspace_id=workspace,
            scopes=scopes,
            stores=stores,
            paths=paths,
            act_as=act_as,
            principal=principal,
            expires_at=expires,
            rate_limit=rate,
            max_body_bytes=max_body,
        )
    output.emit({**_fields(made.record), "api_key": made.text}, plain=f"{made.text}\n")


@output.command("list", group=keys, json="Print a JSON list.")
def list_keys(location: Location) -> None:
    """List the API keys, newest first.

    In a pipe each line has an id, name, status, scopes, patterns of stores and of paths, creation time and time of the
    last use, separated by tabs.
    """
    with location.opened() as found:
        known = KeyStore(LocationRecords(found.backend))
        records, uses, now = known.all(), known.last_uses(), known.now()
    rows = [
        (
            each.id,
            each.name,
            each.status_at(now),
            ",".join(each.scopes),
            ",".join(each.stores),
            ",".join(each.paths),
            each.created_at,
            uses.get(each.id, ""),
        )
        for each in records
    ]
    output.emit(
        [{**_fields(each), "status": each.status_at(now), "last_used_at": uses.get(each.id)} for each in records],
        plain=rows,
        shown=[layouts.Table(_COLUMNS, rows, shortens=("created", "last used", "paths", "stores", "name", "id"))],
    )


@output.command("revoke", group=keys, json="Print a JSON object.")
@click.argument("key_id", metavar="ID")
def revoke(location: Location, *, key_id: str) -> None:
    """Revoke an API key permanently. Its record is kept."""
    with location.opened() as found:
        record = KeyStore(LocationRecords(found.backend)).change(key_id, status="archived")
    output.emit(_fields(record), plain=f"Revoked {record.id} ({record.name}).\n")


def _fields(record: KeyRecord) -> dict[str, object]:
    hidden = {"digest"}
    return {name: getattr(record, name) for name in KeyRecord.__dataclass_fields__ if name not in hidden}
