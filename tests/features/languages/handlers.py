"""The handlers of examples/languages, each with a program in its language that runs calls."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import node
from support.pages import ROOT
from support.profiles import REQUIRED

PROGRAMS = Path(__file__).parent / "programs"
JACKSON = Path("/usr/share/java")
"""Where Debian keeps the libraries that the SDK for Java brings along."""
DOTNET = Path(os.environ.get("RETENTIVE_DOTNET", os.devnull))
"""The folder of the program `dotnet`, of .NET Core 3.1."""


@dataclass(frozen=True)
class Language:
    """A handler, and the function that builds its program in a folder and returns the command.

    `ways` has True if the SDK has an interface that gives no id of the call.
    """

    name: str
    handler: str
    built: Callable[[Path], list[str | Path]]
    ways: tuple[bool, ...] = (False,)


@dataclass(frozen=True)
class Handler:
    """A program that is built."""

    language: Language
    folder: Path
    command: list[str | Path]

    def results(self, lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Run calls, one after another. A failure of the app is in the field `failed`."""
        given = "".join(json.dumps(line) + "\n" for line in lines)
        return [json.loads(line) for line in run(self.command, self.folder, given).splitlines()]


def build(language: Language, folder: Path) -> Handler:
    """Build a program. Without its toolchain, the test is skipped, or fails where all are required."""
    shutil.copytree(PROGRAMS, folder, dirs_exist_ok=True)
    for path in (ROOT / "examples" / "languages").iterdir():
        shutil.copy(path, folder)
    return Handler(language, folder, language.built(folder))


def tool(name: str | Path) -> str:
    """The path of a program or a file."""
    found = shutil.which(name) or (str(name) if Path(name).is_file() else "")
    if not found:
        assert not REQUIRED, f"{name} is not installed"
        pytest.skip(f"{name} is not installed")
    return found


def run(command: Iterable[str | Path], folder: Path, given: str = "", **variables: str) -> str:
    done = subprocess.run(
        list(command),
        cwd=folder,
        env=os.environ | variables,
        input=given,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _typescript(folder: Path) -> list[str | Path]:
    packages = node.modules(node.SDK)
    (folder / "node_modules").symlink_to(packages)
    return [node.executable(packages), "--disable-warning=ExperimentalWarning", "driver.mts"]


def _csharp(folder: Path) -> list[str | Path]:
    """Debian's compiler knows C# 7. The program runs on .NET Core, whose libraries it is compiled against."""
    dotnet = tool(DOTNET / "dotnet")
    (libraries,) = (DOTNET / "shared" / "Microsoft.NETCore.App").iterdir()
    given = [f"-r:{each}" for each in libraries.glob("System*.dll") if "WindowsRuntime" not in each.name]
    run([tool("mcs"), "-nostdlib", "-noconfig", "-out:driver.dll", *given, *folder.glob("*.cs")], folder)
    framework = {"name": "Microsoft.NETCore.App", "version": libraries.name}
    options = {"framework": framework, "configProperties": {"System.Globalization.Invariant": True}}
    (folder / "driver.runtimeconfig.json").write_text(json.dumps({"runtimeOptions": options}))
    return [dotnet, "driver.dll"]


def _java(folder: Path) -> list[str | Path]:
    path = ":".join([".", *(tool(JACKSON / f"jackson-{name}.jar") for name in ("core", "databind", "annotations"))])
    run([tool("javac"), "-Xlint:all,-unchecked", "-Werror", "-cp", path, "Driver.java"], folder)
    return [tool("java"), "-cp", path, "Driver"]


def _go(folder: Path) -> list[str | Path]:
    (folder / "go.mod").write_text("module example.com/memory\n\ngo 1.19\n")
    (folder / "retentive").mkdir()
    (folder / "memory.go").rename(folder / "retentive" / "memory.go")
    run([tool("go"), "build", "-o", "driver", "."], folder, GOCACHE=str(folder / "cache"))
    return [folder / "driver"]


def _ruby(folder: Path) -> list[str | Path]:
    return [tool("ruby"), "-w", "driver.rb"]


def _php(folder: Path) -> list[str | Path]:
    php = tool("php")
    if "curl" not in run([php, "-m"], folder).split():
        tool("the extension curl of PHP")
    return [php, "-d", "error_reporting=-1", "driver.php"]


LANGUAGES = (
    Language("TypeScript", "memory.mts", _typescript, ways=(False, True)),
    Language("C#", "RetentiveMemory.cs", _csharp, ways=(False, True)),
    Language("Java", "RetentiveMemory.java", _java, ways=(False, True)),
    Language("Go", "memory.go", _go),
    Language("Ruby", "retentive_memory.rb", _ruby),
    Language("PHP", "RetentiveMemory.php", _php),
)
