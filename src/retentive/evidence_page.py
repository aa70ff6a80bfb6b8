"""The page of evidence: one HTML file without scripts and links, to read, to print and to keep."""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment

from retentive.evidence import Evidence


def page(evidence: Evidence) -> str:
    """Return evidence as an HTML document. Everything in it is escaped."""
    template = resources.files("retentive").joinpath("evidence.html").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(evidence=evidence)
