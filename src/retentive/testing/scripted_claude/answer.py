"""Responses of the scripted Claude to requests."""

from __future__ import annotations

from dataclasses import dataclass

from retentive.testing.scripted_claude.errors import ApiError
from retentive.testing.scripted_claude.faults import Fault
from retentive.testing.scripted_claude.reply import Reply


@dataclass(frozen=True, slots=True)
class Answer:
    """Response to a request: a reply or an error, whether it is streamed, and the simulated fault."""

    reply: Reply | ApiError
    stream: bool = False
    fault: Fault | None = None
