"""Prints docs/cli.md, made from the commands themselves: `python -m retentive.cli.reference > docs/cli.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from retentive.cli.app import app
from retentive.cli.exits import EXITS

INTRODUCTION = """\
# The command line

<!-- Made by `python -m retentive.cli.reference > docs/cli.md`; a test fails where they differ. -->

The same memories, commands and replies as the tool has, for people and for scripts.

```sh
retentive create /memories/notes.md "Refunds: within 30 days"   # makes ./memory if it is not there
retentive ls
retentive view /memories/notes.md
retentive replace /memories/notes.md "30 days" "14 days"
retentive cat /memories/notes.md > notes.md
retentive edit /memories/notes.md
git log --oneline | retentive --at sqlite:///team.db --store user-42 create /memories/log.txt
```

- Options of `retentive` itself stand before the command. A text that begins with `-` goes behind `--`:
  `retentive create /memories/list.md -- "- eggs"`.
- What only looks or changes what is there makes nothing: a mistyped place or memory store is an error with status 3.
  `create`, `edit` (once there is something to save) and `exec` make the place and the memory store.
- A text given as an argument, through a pipe or in a file is kept to the byte; no newline is added. It must be UTF-8.
- Replies go to standard output and errors to standard error, as plain sentences; with `--json` both go to standard
  output, as `{"text": ..., "is_error": ..., "code": ...}`. The status is the same.
- Output is UTF-8. Colours and tables are for terminals only, and `NO_COLOR` turns the colours off. On a terminal `view`
  shows control characters as `\\x1b`, so that a memory cannot steer it; `cat` never changes a byte.
"""

EXECUTING = """\
```console
$ printf '%s\\n' '{"command": "view", "path": "/memories/none"}' 'not json' | retentive exec
{"text": "The path /memories/none does not exist. Please provide a valid path.", "is_error": true, "code": "not_found"}
{"text": "Error: the line is not JSON: Expecting value (character 1)", "is_error": true, "code": "invalid_input"}
```
"""


def page() -> str:
    """The whole page."""
    with click.Context(app, info_name="retentive", **app.context_settings) as ctx:
        parts = [INTRODUCTION, *_section(ctx, "## "), "## Commands\n"]
        for name in app.list_commands(ctx):
            command = app.get_command(ctx, name)
            assert command is not None
            with click.Context(command, info_name=name, parent=ctx) as inner:
                parts += _section(inner, "### ")
                parts += _below(inner, command)
            if name == "exec":
                parts.append(EXECUTING)
        parts += _exits()
    return "\n".join(parts)


def _below(ctx: click.Context, command: click.Command) -> Iterator[str]:
    """The sections of the commands of a group."""
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            with click.Context(one, info_name=name, parent=ctx) as inner:
                yield from _section(inner, "#### ")


def _section(ctx: click.Context, level: str) -> Iterator[str]:
    yield f"{level}{ctx.command_path}\n"
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx))
    yield f"```\n{ctx.command_path} {pieces}\n```\n"
    yield inspect.cleandoc(ctx.command.help or "") + "\n"
    rows = [record for param in ctx.command.get_params(ctx) if (record := _record(param, ctx))]
    if rows:
        yield "\n".join(["| option | |", "| --- | --- |", *[f"| `{names}` | {text} |" for names, text in rows]]) + "\n"


def _record(param: click.Parameter, ctx: click.Context) -> tuple[str, str] | None:
    record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
    if record is None:
        return None
    names, text = record
    return names.replace("|", "\\|"), text.replace("|", "\\|")


def _exits() -> Iterator[str]:
    yield "## Exit status\n"
    yield "The code of an error stands in JSON replies (`code`); each code has one status.\n"
    rows = [
        f"| {row.status} | {row.meaning} | {', '.join(f'`{code}`' for code in row.codes) or '-'} |" for row in EXITS
    ]
    yield "\n".join(["| status | | codes |", "| --- | --- | --- |", *rows]) + "\n"


if __name__ == "__main__":
    click.echo(page(), nl=False)
