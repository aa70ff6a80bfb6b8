"""Handler of the route that lists background jobs."""

from __future__ import annotations

from datetime import datetime

from retentive.server.calls import Json, RouteCall
from retentive.server.jobs import job_states
from retentive.server.objects import time


def list_jobs(call: RouteCall) -> Json:
    """List the jobs of the location, sorted by name.

    The messages of the jobs contain totals over all workspaces, but no ids.
    """
    return {
        "data": [
            {
                "type": "job",
                "name": each.name,
                "schedule": each.schedule,
                "state": each.state,
                "due_at": _time(each.due_at),
                "started_at": _time(each.started_at),
                "finished_at": _time(each.finished_at),
                "message": each.message,
            }
            for each in job_states(call.location.opened.records)
        ],
        "next_page": None,
    }


def _time(text: str | None) -> str | None:
    return None if text is None else time(datetime.fromisoformat(text))
