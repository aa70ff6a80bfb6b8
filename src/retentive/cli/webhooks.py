"""`webhooks`: list the webhook endpoints of a server, and retry deliveries that failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import click

from retentive.cli import layouts, output
from retentive.cli.location import Location
from retentive.server.webhooks import Endpoint, Webhooks

_COLUMNS = ("id", "url", "state", "workspace", "events", "pending", "dead")
_DEAD = ("endpoint", "event id", "event", "attempts", "last attempt", "error")


@output.group("webhooks", default="list")
def webhooks() -> None:
    """List webhook endpoints, and show and retry dead deliveries.

    Endpoints are created with the API. A delivery is retried for about 30 hours. After ten failed attempts it is dead:
    it is not retried, but is kept for 30 days.
    """


@output.command("list", group=webhooks, json="Print a JSON list.")
def list_endpoints(location: Location) -> None:
    """List the webhook endpoints, oldest first, with the numbers of their pending and dead deliveries."""
    with location.opened() as found:
        known = Webhooks(found)
        endpoints = known.endpoints()
        pending, dead = (Counter(each.endpoint_id for each in known.deliveries(kind)) for kind in ("pending", "dead"))
    rows = [
        (
            each.id,
            each.url,
            each.state,
            each.workspace_id,
            ",".join(each.enabled_events),
            str(pending[each.id]),
            str(dead[each.id]),
        )
        for each in endpoints
    ]
    output.emit(
        [{**_fields(each), "pending": pending[each.id], "dead": dead[each.id]} for each in endpoints],
        plain=rows,
        shown=[layouts.Table(_COLUMNS, rows, shortens=("events", "url", "workspace", "id"))],
    )


@output.command("dead", group=webhooks, json="Print a JSON list, with the bodies.")
def list_dead(location: Location) -> None:
    """List the dead deliveries, by endpoint."""
    with location.opened() as found:
        dead = list(Webhooks(found).deliveries("dead"))
    rows = [
        (each.endpoint_id, each.event_id, each.event, str(each.attempts), each.tried_at or "", each.error or "")
        for each in dead
    ]
    output.emit(
        [asdict(each) for each in dead],
        plain=rows,
        shown=[layouts.Table(_DEAD, rows, shortens=("last attempt", "endpoint", "event id"))],
    )


@output.command("retry", group=webhooks, json="Print a JSON object.")
@click.argument("endpoint_id", metavar="ENDPOINT")
@click.argument("event_id", metavar="EVENT")
def retry(location: Location, *, endpoint_id: str, event_id: str) -> None:
    """Queue a dead delivery again. A running server delivers it at once, and retries it if it fails."""
    with location.opened() as found:
        again = Webhooks(found).retry(endpoint_id, event_id)
    output.emit(asdict(again), plain=f"Queued {again.event_id} for {again.endpoint_id}.\n")


def _fields(endpoint: Endpoint) -> dict[str, object]:
    return {name: value for name, value in asdict(endpoint).items() if name != "secret"}
