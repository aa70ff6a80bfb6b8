"""The subcommands of `retentive`, with their modules and short descriptions. --help needs only this list."""

from __future__ import annotations

from collections.abc import Mapping

SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Read memories": {
        "ls": ("memories", "List memories with their sizes"),
        "cat": ("memories", "Print the exact text of a memory"),
        "view": ("memories", "Show what a model sees: a numbered text or a listing"),
        "search": ("search", "Find memories by words or a pattern"),
    },
    "Change memories": {
        "create": ("changes", "Create a memory"),
        "write": ("changes", "Create a memory, or replace its whole text"),
        "append": ("changes", "Append lines to a memory"),
        "edit": ("editor", "Edit a memory in your editor"),
        "replace": ("changes", "Replace one passage of a memory"),
        "insert": ("changes", "Insert lines into a memory"),
        "cp": ("changes", "Copy a memory"),
        "mv": ("changes", "Rename a memory or a directory"),
        "rm": ("changes", "Delete memories or directories"),
        "update": ("changes", "Change the text or the path of a memory by its id"),
        "delete-id": ("changes", "Delete a memory by its id"),
        "import": ("transfer", "Import files as memories"),
    },
    "Look back and undo": {
        "log": ("history", "List changes, newest first"),
        "show": ("history", "Show one change or version"),
        "diff": ("history", "Show what changed"),
        "blame": ("history", "Show who last changed each line"),
        "undo": ("undoing", "Undo a change, or all changes of an actor"),
        "restore": ("undoing", "Restore an earlier state"),
    },
    "Control retention and trust": {
        "review": ("review", "List, accept and refuse proposed changes"),
        "trust": ("trust", "List, confirm and quarantine untrusted memories"),
        "scan": ("maintenance", "Find sensitive values"),
        "redact": ("removal", "Remove the texts of old versions permanently"),
        "erase": ("removal", "Remove memories with their history permanently"),
        "audit": ("audit", "Verify, export and show the audit log"),
        "encryption": ("encryption", "Create, rotate and destroy encryption keys"),
    },
    "Run memory stores": {
        "init": ("init", "Create a memory store, and print code that uses it"),
        "stores": ("stores", "List, create, describe and archive memory stores"),
        "settings": ("settings", "Show and change limits and permissions"),
        "stats": ("stats", "Show sizes, activity, limits and pending work"),
        "sweep": ("maintenance", "Expire idle memories and old versions"),
        "doctor": ("maintenance", "Check the integrity of the storage, and repair it"),
        "admin": ("maintenance", "Maintain a location: expiry, old versions, orphans"),
        "migrate-schema": ("maintenance", "Create or update the tables of a database server"),
    },
    "Copy and move": {
        "export": ("transfer", "Export a memory store to files"),
        "backup": ("transfer", "Back up memory stores to one file"),
        "restore-backup": ("transfer", "Restore a backup"),
        "sync": ("sync", "Keep a directory of notes in sync with the memory store"),
        "migrate": ("transfer", "Copy memory stores to another location"),
    },
    "Serve other machines": {
        "console": ("console", "Open the web console of a location"),
        "serve": ("server", "Serve the memory stores over HTTP"),
        "keys": ("server", "Create, list and revoke API keys of the server"),
    },
    "Work with models and programs": {
        "exec": ("tool_calls", "Answer JSON commands, one per line"),
        "mcp": ("mcp", "Serve MCP clients, such as Claude Code, over stdio"),
        "hook": ("hooks.command", "Answer a hook of the Claude Code plugin"),
        "demo": ("demo", "Watch an agent learn and remember"),
        "completion": ("completion", "Print the completion script of a shell"),
    },
}
"""Sections of the help. Each maps the name of a command to its module and its short description.

The help and the manual use this order. A line of the help must not be longer than 80 columns.
"""

COMMANDS: Mapping[str, tuple[str, str]] = {name: row for rows in SECTIONS.values() for name, row in rows.items()}

ALIASES: Mapping[str, str] = {"str_replace": "replace", "delete": "rm", "rename": "mv"}
"""Commands of the memory tool that have another name on the command line, with this name."""

MEANT: Mapping[str, str] = {
    "ren": "mv",
    "move": "mv",
    "remove": "rm",
    "del": "rm",
    "list": "ls",
    "dir": "ls",
    "get": "cat",
    "read": "cat",
    "print": "cat",
    "add": "create",
    "copy": "cp",
    "put": "write",
    "set": "write",
    "new": "create",
    "find": "search",
    "grep": "search",
    "history": "log",
    "revert": "undo",
    "config": "settings",
    "check": "doctor",
    "fsck": "doctor",
    "gc": "admin",
    "server": "serve",
}
"""Names of commands in other programs, with the command of `retentive` to suggest."""
