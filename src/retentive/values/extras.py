"""What error messages advise: packages to install, and why a server cannot be reached."""

from __future__ import annotations

import re

# A test compares this table with pyproject.toml.
EXTRAS = {
    "adk": ("google-adk>=2.13,<3",),
    "anthropic": ("anthropic>=2.11,<3",),
    "claude-agent": ("claude-agent-sdk>=0.2.187,<0.3", "mcp>=2.3,<3"),
    "console": ("jinja2>=3.1", "markdown-it-py>=4", "nh3>=0.3"),
    "crypto": ("cryptography>=45",),
    "deepagents": ("deepagents>=0.7.32,<0.8",),
    "guards": ("google-re2>=1.1",),
    "langchain": ("langchain>=1.4,<2", "langchain-anthropic>=1.7,<2"),
    "langgraph": ("langgraph>=1.2,<2", "langgraph-checkpoint>=4.3,<5"),
    "mariadb": ("PyMySQL>=1.2",),
    "mcp": ("mcp>=2.3,<3",),
    "oauth": ("joserfc>=1.4",),
    "objects": ("obstore>=0.12,<0.13",),
    "openai-agents": ("openai-agents>=0.24,<0.25",),
    "pydantic-ai": ("pydantic-ai-slim[anthropic]>=2.68,<3",),
    "remote": ("httpx2>=2.16,<3", "pydantic>=2.12,<3"),
    "postgres": ("psycopg[binary]>=3.3.6,<4",),
    "server": (
        "httptools>=0.6",
        "prometheus-client>=0.21",
        "pydantic>=2.12,<3",
        "standardwebhooks>=1",
        "starlette>=1.0",
        "uvicorn>=0.50",
        "uvloop>=0.21",
    ),
    "strands": ("strands-agents>=1.62,<2",),
    "sync": ("watchfiles>=1.3",),
    "telemetry": ("opentelemetry-exporter-otlp-proto-http>=1.30,<2", "opentelemetry-sdk>=1.30,<2"),
}


def pip_install(*extras: str) -> str:
    """Return a `pip install` command that names the packages of these extras, rather than `retentive[extra]`."""
    return " ".join(["pip install", *(f"'{package}'" for extra in extras for package in EXTRAS[extra])])


_REASONS = (
    (
        r"resolve host|translate host name|service not known|nodename nor|getaddrinfo|dns error|lookup address",
        "the name of the host is unknown; check the host in the URL",
    ),
    (r"Connection refused|actively refused", "the connection was refused; check the host and port"),
    (r"No route to host|Network is unreachable", "there is no route to the host; check the host in the URL"),
    (r"No such file or directory", "no server listens on the local socket; name the host in the URL"),
    (
        r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|does not support SSL|SSL is required",
        "the server does not use TLS; check the scheme and the port",
    ),
    (r"certificate verify failed|UnknownIssuer", "the certificate of the server is not trusted"),
)


def why_unreachable(text: str) -> str | None:
    """Return the reason that the error text of a failed connection names, or None if it names no known reason.

    The text itself is never shown, because it contains names of hosts and users.
    """
    return next((reason for pattern, reason in _REASONS if re.search(pattern, text, re.IGNORECASE)), None)
