"""Cookies that hold a session: the value is a password for as long as the session lasts."""

# ruff: noqa: E501 - a pattern is a line

from __future__ import annotations

import re

from retentive.redaction.checks import is_mixed
from retentive.redaction.rules import Find

# Names of frameworks and services, which need no header before them. Only the start of a name is given.
_NAMES = (
    r"jsessionid|phpsessid|asp\.net_sessionid|aspsessionid|\.aspnetcore\.|connect\.sid|laravel_session|_gitlab_session|ci_session|"
    r"user_session|(?:__secure-|__host-)[a-z0-9_.-]*sess|next-auth\.session-token|authjs\.session-token|wordpress_logged_in_|wordpress_sec_"
)
SEEK_COOKIES = rf"cookies?[\"'\]]*[ ]?[:=,(]|curl[ ][^\n]*?(?:-b|--cookie)[ =]|(?:{_NAMES})[a-z0-9_.-]*="
_KNOWN = re.compile(rf"(?:{_NAMES})[\w.-]{{0,60}}=[\"']?(?P<value>[\w%.~+/:|=-]{{16,4000}})", re.IGNORECASE)
_PAIR = re.compile(
    r"(?<![\w.-])[\w.-]{0,40}?(?:sess|sid|auth|token|remember|login|jwt)[\w.-]{0,40}[\"']?[ ]?[=:][ ]?[\"']?(?P<value>[\w%.~+/|-]{16,4000}={0,2})",
    re.IGNORECASE,
)
_PUBLIC = re.compile(r"csrf|xsrf", re.IGNORECASE)
_LINE_CHARS = 4_000


def find_cookies(text: str, start: int, end: int) -> tuple[list[Find], int]:
    """Return the values of the session cookies after a header, an option or the name of a known cookie.

    Also returns the position up to which the text was examined.
    """
    known = _KNOWN.match(text, start)
    stop = text.find("\n", end, end + _LINE_CHARS)
    stop = known.end() if known else stop if stop >= 0 else min(len(text), end + _LINE_CHARS)
    finds: list[Find] = []
    for match in [known] if known else _PAIR.finditer(text, start, stop):
        value, at = match["value"].rstrip(".:|"), match.start("value")
        if is_mixed(value) and not _PUBLIC.search(text, match.start(), at):
            finds.append(Find("session_cookie", at, at + len(value)))
    return finds, stop
