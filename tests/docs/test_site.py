"""The documentation site is built without a broken link, and its pages load nothing from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import retentive
from support.pages import ROOT

_LOADED = re.compile(r"<(?:(?:img|script|iframe|source)\b[^>]*?\bsrc|link\b[^>]*?\bhref)=\"?([^\"\s>]+)")


@pytest.mark.long
def test_the_site_is_built_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    """A link to a missing page or heading fails the build."""
    command = [sys.executable, str(ROOT / "scripts" / "documentation.py"), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / retentive.__version__).rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").glob("*.md")))
    loaded = {address for page in pages for address in _LOADED.findall(page.read_text("utf-8"))}
    assert loaded
    assert [address for address in loaded if re.match(r"[a-z]*:?//", address)] == []
    (entry,) = json.loads((tmp_path / "versions.json").read_text("utf-8"))
    assert entry == {"version": retentive.__version__, "title": retentive.__version__, "aliases": ["latest"]}
    assert f'href="{retentive.__version__}/index.html"' in (tmp_path / "index.html").read_text("utf-8")
