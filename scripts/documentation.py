"""Builds the documentation site with MkDocs: `python scripts/documentation.py`.

`dist/site` gets one folder for each version, `versions.json` for the menu of versions, and an `index.html` that leads
to the newest one. Folders of other versions stay, so copy those of earlier releases there before publishing. MkDocs
loads this file for its hooks too: they add pages from outside `docs`, the references, the help of all commands and the
code of the road, and rewrite links.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import posixpath
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from retentive.cli.app import app
from retentive.cli.exits import EXITS
from retentive.server import openapi
from retentive.storage.findings import KINDS

sys.path.insert(0, str(Path(__file__).parent))
import api_reference

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = {
    "benchmarks/README.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages from outside `docs`, and their names on the site."""
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_REDIRECT = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>retentive</title>
<meta http-equiv="refresh" content="0; url={version}/index.html"></head>
<body><a href="{version}/index.html">Documentation of retentive {version}</a></body>
</html>
"""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from outside `docs`, and those that are made from the code."""
    for source, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text("utf-8")))
    for name, page in GENERATED.items():
        files.append(File.generated(config, name, content=page()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links for the place of a page on the site. A link to a file that is not on the site becomes its text."""
    markdown = with_roads(markdown)
    names = {name: source for source, name in OUTSIDE.items()}
    source = names.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def rewritten(found: re.Match[str]) -> str:
        text, target = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path, _, heading = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        name = OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not name:
            return text
        return f"[{text}]({name}{'#' if heading else ''}{heading})"

    parts = re.split(r"(^```.*?^```$|`[^`\n]+`(?!\]))", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("`") else _LINK.sub(rewritten, part) for part in parts)


def with_roads(markdown: str) -> str:
    """The text with the function of the road at each mark, such as `<!-- road: write -->`, as it is in the code."""

    def function(mark: re.Match[str]) -> str:
        text = (ROOT / "src" / "retentive" / "engine" / f"{mark[1]}.py").read_text("utf-8")
        nodes = ast.parse(text).body
        (road,) = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == mark[1]]
        return f"```py\n{ast.get_source_segment(text, road)}\n```"

    return re.sub(r"<!-- road: (\w+) -->", function, markdown)


def commands(context: click.Context, command: click.Command) -> Iterator[str]:
    """Yield a section with the help of a command, and one for each of its subcommands."""
    context.max_content_width = 100
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(click.Context(found, info_name=name, parent=context), found)


def command_line() -> str:
    """A page with the help of all commands, the exit statuses and the findings of `doctor`."""
    exits = [
        f"| {status} | {meaning} | {', '.join(map('`{}`'.format, codes))} |"
        for status, (meaning, codes) in EXITS.items()
    ]
    findings = [
        f"| `{kind.code}` | {kind.severity} | {'yes' if kind.mends else ''} | {kind.meaning} | {kind.advice} |"
        for kind in KINDS.values()
    ]
    parts = [
        "# Command line\n",
        *commands(click.Context(app, info_name="retentive"), app),
        "## Exit status\n\n| status | meaning | codes |\n| --- | --- | --- |",
        *exits,
        "\n## Findings of doctor\n\n| code | severity | repaired | meaning | advice |\n| --- | --- | --- | --- | --- |",
        *findings,
    ]
    return "\n".join(parts) + "\n"


GENERATED = {"api.md": api_reference.page, "http-api.md": openapi.reference, "cli.md": command_line}


def version() -> str:
    """The version of the project."""
    found: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return found


def build(out: Path) -> Path:
    """Build the site of this version, and return its folder. Raises `CalledProcessError` for each broken link."""
    folder = out / version()
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    command += ["--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(folder.resolve())]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, check=True, env=environment)  # noqa: S603 - no input from outside
    (folder / "404.html").unlink(missing_ok=True)  # its links are right at the root of a host only
    versions = sorted((each.parent.name for each in out.glob("*/search")), key=_numbers, reverse=True)
    entries = [
        {"version": each, "title": each, "aliases": ["latest"] if each == versions[0] else []} for each in versions
    ]
    (out / "versions.json").write_text(json.dumps(entries, indent=2) + "\n", "utf-8")
    (out / "index.html").write_text(_REDIRECT.format(version=versions[0]), "utf-8")
    return folder


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", name))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "site", help="folder of the site")
    print(f"Built {build(parser.parse_args().out)}")
