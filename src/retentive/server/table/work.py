"""Routes that run commands, search memories, and administer a memory store."""

from __future__ import annotations

from retentive.engine.batch import MAX_BATCH
from retentive.engine.trust import LEVELS
from retentive.server.fields import (
    ANYTHING,
    FLAG,
    TIME,
    Field,
    choice,
    objects,
    required,
    text,
    texts,
)
from retentive.server.handlers import (
    administration,
    commands,
    events,
    search,
    tool,
)
from retentive.server.route import Route
from retentive.server.table.shared import ADMIN, AT, ERASE, LIMIT, PAGE, PREFIX, READ, STORE, WRITE
from retentive.values.patterns import check_path_pattern
from retentive.values.settings import NAMES

STORE_ROUTES = (
    Route(
        "POST",
        f"{STORE}/search",
        READ,
        search.search_memories,
        "search_results",
        "Search for memories, best first; docs/search.md has the operators of a query",
        body=(
            required("query", text(4_000, min_chars=1), "Words, phrases and operators"),
            PREFIX,
            Field(
                "mode",
                choice("ranked", "all", "regex"),
                "`ranked`: any word counts; `all`: all words must occur; `regex`: the query is a pattern",
                default="ranked",
            ),
            AT,
            Field("paths", texts(check_path_pattern), "Patterns of paths, such as `/memories/*/notes.md`", default=()),
            Field("source", text(), "Only memories with a contributor of a source that matches this pattern"),
            Field("trust", choice(*LEVELS), "Only memories at this level of trust"),
            Field("history", FLAG, "Search all versions, and find the first with each text", default=False),
            LIMIT,
        ),
    ),
    Route(
        "POST",
        f"{STORE}/tool",
        ("read", "write"),
        tool.run_tool,
        "tool_result",
        "Run a tool_use block of the memory tool; `view` needs the scope `read`, the other commands `write`",
        body=(
            required("type", choice("tool_use"), "Type of the block"),
            required("id", text(min_chars=1), "Id of the block. The same id again gets the same result for 24 hours"),
            Field("name", ANYTHING, "Name of the tool"),
            Field("input", ANYTHING, "The command"),
            Field("caller", ANYTHING, "Ignored"),
            Field("cache_control", ANYTHING, "Ignored"),
        ),
    ),
    Route(
        "POST",
        f"{STORE}/commands",
        ("read", "write"),
        commands.run_command,
        "command_result",
        "Run a command of the memory tool, or `write`, `append` or `clear`; `view` needs the scope `read`,"
        " the others `write`",
        body=(
            required("command", ANYTHING, "Input of the tool. `write` and `append` have the fields of `create`"),
            Field("id", text(min_chars=1), "The same id again gets the same result for 24 hours"),
            Field("if_version", text(200), "Id that the newest version must have; empty if there must be no memory"),
            Field("source", text(), "Source of the change, such as `user` or `tool:name`"),
            Field("session", text(), "Session of the change"),
        ),
        conflicts=True,
    ),
    Route(
        "POST",
        f"{STORE}/batch",
        WRITE,
        commands.run_batch,
        "batch_result",
        "Run up to 100 commands as one change, all or none; an error has the `position` of the refused command",
        body=(
            required(
                "commands",
                objects(MAX_BATCH),
                "Inputs of the tool, without `view`; each may have `if_version`, the id of the newest version",
            ),
            Field("source", text(), "Source of the change, such as `user` or `tool:name`"),
            Field("session", text(), "Session of the change"),
        ),
        conflicts=True,
    ),
    Route(
        "GET",
        f"{STORE}/events",
        READ,
        events.stream_events,
        "stream:text/event-stream",
        "Send the changes of the memories as they happen, as server-sent events",
        query=(Field("after", text(50), "Begin after the event with this id; the header `Last-Event-ID` wins"),),
    ),
    Route("GET", f"{STORE}/usage", READ, administration.retrieve_usage, "memory_store_usage", "Count the memories"),
    Route(
        "GET",
        f"{STORE}/settings",
        READ,
        administration.retrieve_settings,
        "memory_store_settings",
        "Retrieve the settings",
    ),
    Route(
        "POST",
        f"{STORE}/settings",
        ADMIN,
        administration.update_settings,
        "memory_store_settings",
        "Change settings; null restores a default",
        body=tuple(Field(name, ANYTHING, "See docs/guards.md", is_patch=True) for name in NAMES),
    ),
    Route(
        "GET",
        f"{STORE}/audit_entries",
        ADMIN,
        administration.list_audit_entries,
        "list:audit_entry",
        "List the audit log, oldest first",
        query=(LIMIT, PAGE),
    ),
    Route(
        "GET",
        f"{STORE}/audit/export",
        ADMIN,
        administration.export_audit,
        "stream:application/x-ndjson",
        "Export the audit log: in each line the stored entry and its paths, null if they were removed",
        query=(Field("since", TIME, "Only entries since this time"),),
    ),
    Route(
        "GET",
        f"{STORE}/audit/verify",
        ADMIN,
        administration.verify_audit,
        "audit_report",
        "Verify the audit log",
        query=(Field("expect", text(10_000), "Heads of earlier reports, separated by commas", default=""),),
    ),
    Route(
        "POST",
        f"{STORE}/memories/{{memory_id}}/erase",
        ERASE,
        administration.erase_memory,
        "memory_erased",
        "Permanently remove a memory with its history",
    ),
)
