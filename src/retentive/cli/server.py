"""`serve`, `console`, `mcp` and `keys`: serve memory stores, and manage the API keys of the clients of a server."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from retentive.cli import output
from retentive.cli.location import FILE_VARIABLE, KEYS_VARIABLE, STORAGE_CODES, Location, naming, shown
from retentive.cli.options import Group, command
from retentive.cli.parameters import flag, mount_option, option
from retentive.errors import InvalidInput, NotFound
from retentive.locations import location_exists
from retentive.opening import Retentive
from retentive.server.keys import DEFAULT_SCOPES, DEFAULT_WORKSPACE, KeyStore
from retentive.server.options import CONFIG, PREFIX, ServeOptions, kind_of, read_configuration, settings
from retentive.server.rights import SCOPES, KeyRecord, closest, unmatched
from retentive.storage.disk import need_posix

if TYPE_CHECKING:
    from retentive.server.sessions import Sessions

COMMANDLINE = click.core.ParameterSource.COMMANDLINE
OF_RIGHTS = ("scopes", "stores", "paths")
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
        kind, about = kind_of(each), each.metadata
        shape: dict[str, Any] = {"type": click.IntRange(about["low"], about["high"]) if kind is int else kind}
        words = each.name.replace("_", "-")
        function = click.option(
            f"--{words}/--no-{words}" if each.default is True else f"--{words}",
            each.name,
            default=each.default,
            show_default=kind is not bool and each.default is not None,
            envvar=PREFIX + each.name.upper(),
            metavar=about["metavar"] or None,
            help=about["text"],
            **({"is_flag": True} if kind is bool else shape),
        )(function)
    return option(
        "--config",
        "FILE",
        "Configuration file (TOML).",
        envvar=CONFIG,
        is_eager=True,
        expose_value=False,
        callback=_configure,
    )(function)


@command("serve")
@_server_settings
def serve(location: Location, **given: Any) -> None:
    """Serve the memory stores over HTTP, until Ctrl-C or SIGTERM.

    The server has the API of Anthropic's hosted memory stores, so Anthropic's SDKs work with it, and routes of its own;
    see docs/server.md. Each request needs an API key. The first start on a loopback address creates a key for
    administrators and prints it once. An address that other machines can reach needs TLS, or --insecure-no-tls behind a
    proxy that encrypts the connections.
    """
    need_posix("`retentive serve`")
    from retentive.server import serve as server  # noqa: PLC0415 - imports uvicorn

    pages = "retentive.console.web:routes" if given["console"] else None
    key_file = location.keys if os.environ.get(KEYS_VARIABLE) else location.key_file
    options = ServeOptions(location.url, key_file=key_file, pages=pages, **given)

    def on_start(url: str, first_key: str | None) -> None:
        if first_key is not None:
            output.write_line(f"First API key, for administrators; it is not shown again: {first_key}")
        output.write_line("`retentive keys new NAME` creates an API key for a client or a person.")
        if options.pages is not None:
            output.write_line(f"Console for people: {url}/console/")
        output.write_line(f"Serving {shown(location.url)} at {url}")

    with naming("Location", location.shown):
        location_exists(location.url)  # raises for a place that cannot be one
    with naming("Location", location.shown, codes=STORAGE_CODES | {"permission_denied"}):
        server.serve(options, on_start=on_start)


@command("console")
@flag("--no-browser", "Print the address without opening a browser.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port to listen on; 0 is any free one.")
def console(location: Location, *, no_browser: bool, port: int) -> None:
    """Serve the web console of a location until Ctrl-C, and open it in the browser.

    Only this machine can connect. The login page asks for the code that this command prints. The code can be used once,
    within 60 seconds. Changes are recorded with your user as actor. docs/server.md describes the pages.
    """
    need_posix("`retentive console`", "it can run on another machine that has this location")

    def on_start(address: str, code: str) -> None:
        output.write_line(f"Console of {shown(location.url)} at {address}/console/")
        output.write_line(f"Code for the login page, valid once for 60 seconds: {code}")
        if not no_browser:
            webbrowser.open(f"{address}/console/")

    serve_console(location, on_start, port=port)


def serve_console(
    location: Location, on_start: Callable[[str, str], None], *, port: int = 0, lasts_s: int = 60
) -> None:
    """Serve the console of a location to this machine until Ctrl-C.

    `on_start` gets the address, and the code for the login page, which is valid for `lasts_s` seconds.
    """
    from retentive.console.web import console as made  # noqa: PLC0415 - imports the server
    from retentive.server.serve import serve_here  # noqa: PLC0415 - imports uvicorn
    from retentive.server.sessions import OneTimeCode  # noqa: PLC0415 - imports the server

    with location.opened() as opened:
        code = OneTimeCode(location.actor_name, lasts_s=lasts_s)
        spelled = f"{code.text[:4]}-{code.text[4:]}"
        serve_here(
            opened, lambda server: made(server, code=code).routes(), lambda address: on_start(address, spelled),
            port=port,
        )  # fmt: skip


@command("mcp")
@flag("--one-tool", "Offer one tool `memory` with all commands, instead of a tool for each.")
@mount_option
def mcp(location: Location, *, one_tool: bool) -> None:
    """Serve the memory store to an MCP client, on standard input and output.

    A client such as Claude Code or Claude Desktop starts this command. If the location is the URL of a server, the
    calls are forwarded to that server. Changes are recorded with the actor given by --actor, and the tool `memory_undo`
    undoes only changes by this actor.

    Creates the location and the memory store if they do not exist, and stores that are mounted writable.

    \b
    retentive --at https://memory.example.com --store me mcp --mount team=team:ro
    """
    from retentive.mcp import stdio  # noqa: PLC0415 - takes a second

    with location.tree(create=True, sweep=True) as store:
        stdio.serve(store, one_tool=one_tool)


_workspace = option("--workspace", "workspace_id", "ID", "Workspace of the sign-ins.", default=DEFAULT_WORKSPACE)


@click.group("keys", cls=Group, default="list")
def keys() -> None:
    """Create, list and revoke the API keys of the server's clients.

    Keys are stored hashed at the location. A running server accepts a new key at once, and stops accepting a
    revoked key within 5 seconds.
    """


@command("new", group=keys, json='Print a JSON object: {"id", "name", "scopes", "api_key", ...}.')
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=DEFAULT_SCOPES,
    help="Permission of the key; may be repeated. admin includes all others.",
)
@flag("--only-groups", "Give the key no permissions of its own, only those of its groups.")
@option("--stores", "PATTERN", "Limit the key to this store id or key pattern; repeatable.", multiple=True)
@option("--path", "paths", "PATTERN", _PATHS, multiple=True)
@option("--act-as", "PATTERN", "Actors that a request may use; may be repeated.", multiple=True)
@option("--principal", "ACTOR", "Actor of changes, such as user:ann.  [default: the key itself]")
@option("--workspace", "workspace_id", "ID", "Workspace of the key.", default=DEFAULT_WORKSPACE)
@option("--rate", "rate_limit", "N/s", "Rate limit, such as 50/s or none.  [default: the server's limit]")
@click.option(
    "--gateway-mode",
    type=click.Choice(["declared", "added"]),
    default="declared",
    help="Requests through the gateway: act if they declare the memory tool, or add it.",
)
@option("--expires-in-days", "DAYS", "Days until the key expires.", type=click.IntRange(1, 36_500))
def new(location: Location, /, *, name: str, expires_in_days: int | None, only_groups: bool, **given: Any) -> None:
    """Create an API key and print it. It is shown only once.

    \b
    retentive keys new ci --scope read --stores 'team-*' --expires-in-days 30
    retentive keys new backend --act-as 'session:*'
    retentive keys new ann --principal user:ann --only-groups
    """
    if only_groups:
        if any(click.get_current_context().get_parameter_source(each) is COMMANDLINE for each in OF_RIGHTS):
            raise click.UsageError("--only-groups cannot be combined with --scope, --stores and --path.")
        given["scopes"] = ()
    expires = None if expires_in_days is None else datetime.now(UTC) + timedelta(days=expires_in_days)
    with location.opened(create=True) as found:
        warnings = warnings_of(found, given["workspace_id"], given["stores"])
        made = KeyStore(found.records).create(name, expires_at=expires, by=location.actor_name, **given)
    result = {**_fields(made.record), "api_key": made.text, "warnings": warnings}
    output.emit(result, f"{made.text}\n", notes=[f"Warning: {each}" for each in warnings])


def warnings_of(found: Retentive, workspace_id: str, stores: Sequence[str]) -> list[str]:
    """Return what may be a typing error in the name of a workspace, or in patterns of its memory stores."""
    infos = found.stores()
    known = {DEFAULT_WORKSPACE, *(each.workspace_id for each in infos)}
    known |= {each.workspace_id for each in KeyStore(found.records).all()}
    if workspace_id not in known:
        return [f"the workspace {workspace_id!r} has no memory store and no key yet{closest(workspace_id, known)}"]
    return unmatched(stores, [each for each in infos if each.workspace_id == workspace_id and each.erased_at is None])


@command("list", group=keys, json="Print a JSON list.")
def list_keys(location: Location) -> None:
    """List the API keys, newest first.

    In a pipe each line has an id, name, status, scopes, patterns of stores and of paths, creation time and time of the
    last use, separated by tabs.
    """
    with location.opened() as found:
        known = KeyStore(found.records)
        records, uses, now = known.all(), known.last_uses(), known.now()
    rows = [{**_fields(each), "status": each.status_at(now), "last_used_at": uses.get(each.id)} for each in records]
    columns = {name: name for name in ("id", "name", "status", "scopes", "stores", "paths")}
    columns |= {"created": "created_at", "last used": "last_used_at"}
    shortens = ("created", "last used", "paths", "stores", "name", "id")
    output.emit(rows, output.table(rows, columns, empty="No keys.", shortens=shortens))


@command("revoke", group=keys, json="Print a JSON object.")
@click.argument("key_id", metavar="ID")
def revoke(location: Location, *, key_id: str) -> None:
    """Revoke an API key permanently. Its record is kept."""
    with location.opened() as found:
        record = KeyStore(found.records).change(key_id, status="archived", by=location.actor_name)
    output.emit(_fields(record), f"Revoked {record.id} ({record.name}).\n")


@command("sessions", group=keys, json="Print a JSON list.")
@_workspace
def list_sessions(location: Location, *, workspace_id: str) -> None:
    """List the open sign-ins to the console of a server, last used first."""
    with location.opened() as found:
        rows = [each._asdict() for each in _sessions(found).open(workspace_id)]
    columns = {"id": "id", "who": "actor", "signed in with": "key", "address": "address"}
    output.emit(rows, output.table(rows, {**columns, "since": "since", "last used": "seen"}, empty="No sign-ins."))


@command("sign-out", group=keys, json='Print a JSON object: {"ended"}, the ids of the sign-ins.')
@click.argument("who", metavar="ID|ACTOR")
@_workspace
def sign_out(location: Location, *, who: str, workspace_id: str) -> None:
    """End a sign-in to the console by its id, or all of an actor such as user:ann. Their API keys stay valid."""
    with location.opened() as found:
        sessions = _sessions(found)
        ended = [each for each in sessions.open(workspace_id) if who in {each.id, each.actor}]
        if not ended:
            raise NotFound("there is no such sign-in")
        sessions.end_of(ended, by=location.actor_name)
    output.emit({"ended": [each.id for each in ended]}, f"Ended {output.counted(len(ended), 'sign-in')}.\n")


def _sessions(opened: Retentive) -> Sessions:
    from retentive.server.sessions import Sessions  # noqa: PLC0415 - imports the server

    return Sessions(KeyStore(opened.records), opened.records)


def _fields(record: KeyRecord) -> dict[str, object]:
    hidden = {"digest", "grants", "claimed", "joins_groups", "write_paths", "only_store"}
    return output.attributes(record, *(name for name in KeyRecord.__dataclass_fields__ if name not in hidden))
