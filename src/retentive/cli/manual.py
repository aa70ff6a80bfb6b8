"""Prints the manual page, generated from the commands: `python -m retentive.cli.manual > docs/retentive.1`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from retentive import __version__
from retentive.cli.app import app
from retentive.cli.catalogue import SECTIONS
from retentive.cli.exits import EXITS
from retentive.cli.options import examples_of, own_options


def page() -> str:
    """Return the text of docs/retentive.1, in the macros of man(7)."""
    with click.Context(app, info_name="retentive", **app.context_settings) as ctx:
        lines = [
            f'.TH RETENTIVE 1 "" "retentive {__version__}" "User Commands"',
            ".SH NAME",
            r"retentive \- durable, versioned, shared memory for Claude's memory tool",
            ".SH SYNOPSIS",
            ".B retentive",
            r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGS\fR]...",
            ".SH OPTIONS",
            "Accepted before and after every command.",
            *_options(own_options(ctx, is_root=True)),
        ]
        for title, rows in SECTIONS.items():
            lines.append(f'.SH "{title.upper()}"')
            for name in rows:
                command = app.get_command(ctx, name)
                assert command is not None
                lines += _command(ctx, command)
    lines += [".SH EXIT STATUS", *(line for row in EXITS for line in (".TP", str(row.status), _escaped(row.meaning)))]
    return "\n".join([*lines, ".SH SEE ALSO", r"docs/cli.md, and \fBretentive\fR \fICOMMAND\fR \fB\-\-help\fR", ""])


def _command(parent: click.Context, command: click.Command) -> Iterator[str]:
    with click.Context(command, info_name=command.name, parent=parent) as ctx:
        pieces = " ".join(ctx.command.collect_usage_pieces(ctx))
        yield f'.SS "{_escaped(f"{ctx.command_path} {pieces}")}"'
        paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))
        yield from ("\n.PP\n".join(_escaped(" ".join(each.split())) for each in paragraphs)).split("\n")
        yield from _options([each for each in own_options(ctx) if "--help" not in each[0]])
        yield from (".PP", ".RS 4", ".nf", *map(_escaped, examples_of(ctx)), ".fi", ".RE")
        if isinstance(command, click.Group):
            for each in command.commands.values():
                yield from _command(ctx, each)


def _options(records: list[tuple[str, str]]) -> Iterator[str]:
    for names, text in records:
        yield from (".TP", f".B {_escaped(names)}", _escaped(text))


def _escaped(text: str) -> str:
    """Escape text so that roff prints it literally."""
    plain = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{plain}" if plain[:1] in {".", "'"} else plain


if __name__ == "__main__":
    click.echo(page(), nl=False)
