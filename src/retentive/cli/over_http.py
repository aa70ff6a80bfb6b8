"""Lists the commands that accept the URL of a server as location, and those that must run on the server's machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

OVER_HTTP: Mapping[str, str] = {
    "ls": "",
    "cat": "",
    "view": "without `--as-of`",
    "search": "at most 100 memories",
    "create": "",
    "write": "",
    "append": "",
    "edit": "",
    "replace": "",
    "insert": "",
    "cp": "",
    "mv": "",
    "rm": "",
    "update": "",
    "delete-id": "",
    "import": "records the actor of the API key",
    "log": "",
    "show": "",
    "diff": "of one change, or of two versions by their ids",
    "blame": "",
    "undo": "with a revision, `--by`, `--session` or `--yes`",
    "restore": "",
    "review": "one proposal per call",
    "trust": "",
    "redact": "without `--finish`",
    "erase": "one memory or a whole store; without `--older-than`",
    "audit": "without anchors",
    "stores": "",
    "settings": "",
    "export": "",
    "sync": "",
    "exec": "",
    "mcp": "",
    "hook": "",
}
"""Commands that accept the URL of a server. The value is their limits, or an empty string if there are none."""
ON_THE_MACHINE: Mapping[str, str] = {
    "scan": "reads all versions",
    "encryption": "keys stay with the storage",
    "init": "creates a location",
    "stats": "reads the whole store; `GET .../usage` has the totals",
    "sweep": "the server does it every hour",
    "doctor": "reads the storage",
    "admin": "the server does it every hour",
    "migrate-schema": "changes the tables",
    "backup": "reads all stores",
    "restore-backup": "writes several stores",
    "migrate": "copies the storage",
    "console": "the server has it at `/console`",
    "serve": "is the server",
    "keys": "the API has it: `/v1/organizations/api_keys`",
    "demo": "has a location of its own",
    "completion": "has no location",
}
"""Commands that refuse or ignore the URL of a server. The value is the reason."""


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the table in docs/remote.md: a command, whether it accepts a server's URL, and a remark."""
    for name, remark in OVER_HTTP.items():
        yield f"`{name}`", "yes", remark
    for name, remark in ON_THE_MACHINE.items():
        yield f"`{name}`", "no", remark


def table() -> str:
    """Return the table in Markdown."""
    head = "| command | with a URL | |\n| --- | --- | --- |\n"
    return head + "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows())
