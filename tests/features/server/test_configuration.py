"""Configuration of `retentive serve`: flags, environment variables, a file, and the page about them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import retentive.server.serve as server
from retentive.cli.app import app
from retentive.errors import InvalidInput
from retentive.server.options import ServeOptions, kind_of, read_configuration, settings
from support.pages import ROOT


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServeOptions]:
    """The options of the servers that the command starts. They listen on nothing."""
    found = list[ServeOptions]()

    def serve(options: ServeOptions, **_: Any) -> None:
        found.append(options)

    monkeypatch.setattr(server, "serve", serve)
    for name in ("RETENTIVE_AT", "RETENTIVE_KEYS", "RETENTIVE_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)
    return found


def serve(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(app, [*arguments], env=variables)


def test_a_flag_overrides_a_variable_and_a_variable_the_file(tmp_path: Path, started: list[ServeOptions]) -> None:
    file = tmp_path / "server.toml"
    file.write_text('host = "::1"\nport = 1\nworkers = 2\nrequest_log = false\nat = "sqlite:///file.db"\n')
    given = {"RETENTIVE_SERVE_CONFIG": str(file), "RETENTIVE_SERVE_PORT": "2", "RETENTIVE_SERVE_WORKERS": "3"}
    for arguments in (["serve", "--workers", "4"], ["--at", "sqlite://", "serve", "--request-log"], ["serve"]):
        assert serve(*arguments, **given).output == ""
    given["RETENTIVE_AT"] = "sqlite:///variable.db"
    assert serve("serve", **given).output == ""
    shown = [(each.url, each.host, each.port, each.workers, each.request_log) for each in started]
    assert shown == [
        ("sqlite:///file.db", "::1", 2, 4, False),
        ("sqlite://", "::1", 2, 3, True),
        ("sqlite:///file.db", "::1", 2, 3, False),
        ("sqlite:///variable.db", "::1", 2, 3, False),
    ]


def test_every_setting_has_a_flag_a_variable_and_a_name_in_the_file(
    tmp_path: Path, started: list[ServeOptions]
) -> None:
    """Each way sets it to the same value, and without any it has its default."""
    file = tmp_path / "server.toml"
    for each in settings():
        kind, words = kind_of(each), each.name.replace("_", "-")
        value = 3 if kind is int else not each.default if kind is bool else "x"
        text = str(value).lower() if kind is bool else str(value)
        file.write_text(f"{each.name} = {text if kind is not str else repr(text)}\n")
        flag = [f"--no-{words}" if each.default is True else f"--{words}", *([] if kind is bool else [text])]
        for done in (
            serve("serve", *flag),
            serve("serve", **{f"RETENTIVE_SERVE_{each.name.upper()}": text}),
            serve("serve", f"--config={file}"),
        ):
            assert done.output == "", each.name
        *same, default = [getattr(options, each.name) for options in [*started, ServeOptions("")]]
        assert (same, default) == ([value] * 3, each.default)
        started.clear()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("prot = 1", "there is no setting 'prot'"),
        ('port = "1"', "port must be of the type integer"),
        ("insecure_no_tls = 1", "must be of the type boolean"),
        ("port = ", "is not valid TOML"),
        ("workers = 0", "0 is not in the range"),
        (None, "No such file"),
    ],
)
def test_a_wrong_file_starts_nothing(tmp_path: Path, started: list[ServeOptions], text: str | None, wrong: str) -> None:
    file = tmp_path / "server.toml"
    if text is not None:
        file.write_text(text)
    done = serve("serve", "--config", str(file))
    assert (done.exit_code, wrong in " ".join(done.output.split()), started) == (2, True, [])


def test_the_example_of_the_page_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "server.md").read_text("utf-8")
    (example,) = re.findall(r"--config FILE.*?```toml\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "server.toml"
    file.write_text(example)
    assert read_configuration(str(file)) == tomllib.loads(example)


def test_missing_certificates_are_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "cert.pem")
    with pytest.raises(InvalidInput, match=re.escape(missing)):
        ServeOptions("sqlite://", tls_cert=missing, tls_key=__file__).check()
