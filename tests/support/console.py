"""Client of the console without a browser, and a strict reading of its pages."""

from __future__ import annotations

import re
import weakref
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2

from retentive.console.pages import PAGES
from support.http_api import Api

TAGS = frozenset(
    re.findall(
        r"\w+",
        """a article aside b bdi body br blockquote button caption code col colgroup dd del details dialog div dl dt
        em figcaption figure kbd fieldset footer form h1 h2 h3 h4 h5 h6 head header hr html i img input label legend li
        link main mark meta nav ol option p path pre rect s script section select span strong summary svg table tbody td
        textarea th thead time title tr ul wbr""",
    )
)
"""Elements of the templates and of Markdown."""
ATTRIBUTES = frozenset(
    re.findall(
        r"[a-z-]+",
        """accept action alt aria-current aria-hidden aria-label autocomplete autofocus charset checked class colspan
        content data-key data-l data-row d datetime defer for height href id inputmode lang maxlength method name open
        placeholder preserveaspectratio rel required role rows rx scope selected size spellcheck src tabindex title type
        value viewbox width x y hidden tabindex aria-describedby aria-live aria-expanded aria-sort""",
    )
)
REQUESTS = re.compile(
    r"/console/s/memstore_[0-9a-f]{32}/(?:activity|children|decide|news|review|tree)(?:[/?].*)?|/console/\?.*"
)
"""URLs that htmx may request for an element of the templates."""
LINKS = frozenset({"href", "src", "action"})
VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "path", "rect", "wbr"})
CLASSES = re.compile(r"[a-z][a-z0-9 -]{0,40}")
IDS = re.compile(
    r"L\d+|main|listing|news|stores|key|name|text|path|reason|to|at|to-help|at-help|typed|pattern|release|s-[a-z_]+"
)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.pieces: list[str] = []
        self.forms: list[tuple[str, str, dict[str, str]]] = []
        self.problems: list[str] = []
        self.is_in_area: str | None = None
        self.in_select: str | None = None
        self.is_in_option = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "form":
            self.forms.append((given.get("method", "get"), given["action"], {}))
        elif tag in {"input", "textarea", "select"} and "name" in given and "form" in self.open:
            is_chosen = given.get("type") not in {"radio", "checkbox"} or "checked" in given
            if is_chosen:
                self.forms[-1][2][given["name"]] = given.get("value", "")
            if tag == "textarea":
                self.is_in_area = given["name"]
            self.in_select = given["name"] if tag == "select" else None
        elif tag == "option" and self.in_select is not None and self.forms:
            fields = self.forms[-1][2]
            if "selected" in given or not fields[self.in_select]:
                fields[self.in_select], self.is_in_option = given.get("value", ""), "value" not in given

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open[-1] != tag:
            if tag not in {"html", "body"} or tag not in self.open:
                self.problems.append(f"</{tag}> closes {self.open[-3:]}")
            return
        self.open.pop()
        if tag == "textarea":
            self.is_in_area = None

    def handle_data(self, data: str) -> None:
        if self.is_in_area is not None:
            fields = self.forms[-1][2]
            fields[self.is_in_area] += data.removeprefix("\n") if not fields[self.is_in_area] else data
        if self.is_in_option and self.in_select is not None:
            self.forms[-1][2][self.in_select], self.is_in_option = data.strip(), False
        self.pieces.append(data)

    def handle_comment(self, data: str) -> None:
        self.problems.append(f"comment {data[:80]}")


@dataclass
class Seen:
    """An answer of the console."""

    status: int
    headers: httpx2.Headers
    url: str
    body: str
    _reader: _Reader = field(default_factory=_Reader, repr=False)

    def __post_init__(self) -> None:
        if self.headers.get("content-type", "").startswith("text/html"):
            self._reader.feed(self.body)
            self._reader.close()

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._reader.pieces).split())

    @property
    def links(self) -> list[str]:
        return [given["href"] for tag, given in self._reader.tags if tag == "a" and "href" in given]

    @property
    def forms(self) -> list[tuple[str, str, dict[str, str]]]:
        """Method, action and fields of each form."""
        return self._reader.forms

    def form(self, action: str) -> dict[str, str]:
        """Fields of the form whose action contains a text."""
        return next(fields for method, to, fields in self.forms if action in to and method == "post")

    def problems(self) -> list[str]:
        """Everything in the page that the templates cannot have made."""
        found = list(self._reader.problems)
        for tag, given in self._reader.tags:
            found += [f"<{tag}>"] if tag not in TAGS else []
            found += [f"<{tag} {name}>" for name in _without_htmx(given) if name not in ATTRIBUTES]
            found += [f"class {given['class']}"] if "class" in given and not CLASSES.fullmatch(given["class"]) else []
            found += [f"id {given['id']}"] if "id" in given and not IDS.fullmatch(given["id"]) else []
            found += [f"<{tag} {name}={given[name]}>" for name in LINKS & given.keys() if not _is_harmless(tag, given)]
            if tag in {"script", "img", "link"}:
                source = given.get("src") or given.get("href", "")
                found += [] if source.startswith("/console/static/") else [f"<{tag} {source}>"]
        return found


def _without_htmx(given: dict[str, str]) -> dict[str, str]:
    """The attributes without those for htmx that a template has made: on elements that it has named, or none at all."""
    urls = [given[name] for name in ("hx-get", "hx-post") if name in given]
    is_named = given.get("id") in {"news", "stores"} or given.get("class") == "chevron"
    is_form = bool(urls) and given.get("action") == urls[0]
    if (is_named or is_form) and all(map(REQUESTS.fullmatch, urls)):
        return {name: value for name, value in given.items() if not name.startswith("hx-")}
    return {name: value for name, value in given.items() if name != "hx-ignore"}


def _is_harmless(tag: str, given: dict[str, str]) -> bool:
    to = next(given[name] for name in ("href", "src", "action") if name in given)
    if to in {"", "#main"} or re.fullmatch(r"#L\d+|#at|\?[\w=&.%:+*-]*", to):
        return True
    if to.startswith("/console/"):
        return True
    is_outward = tag == "a" and re.match(r"(https?://|mailto:)", to, re.IGNORECASE) is not None
    return is_outward and given.get("rel") == "noopener noreferrer nofollow"


class Person:
    """A person with an API key, whose browser follows redirects and sends the headers of a browser."""

    def __init__(self, api: Api, key: str | None = None, *, signs_in: bool = True) -> None:
        self.api = api
        self.key = api.key if key is None else key
        self.http = httpx2.Client(base_url=api.url, follow_redirects=True, timeout=30, verify=False)
        weakref.finalize(self, self.http.close)
        if signs_in:
            assert self.sign_in().status == 200

    def sign_in(self, key: str | None = None, wanted: str = "") -> Seen:
        page = self.get("/console/login" + (f"?next={wanted}" if wanted else ""))
        return self.post("/console/login", {**page.form("login"), "key": self.key if key is None else key})

    def get(self, url: str, **headers: str) -> Seen:
        return _seen(self.http.get(url, headers=_named(headers)))

    def post(self, url: str, fields: dict[str, Any], **headers: str) -> Seen:
        given = {"origin": self.api.url, "sec-fetch-site": "same-origin", **_named(headers)}
        return _seen(self.http.post(url, data=fields, headers={k: v for k, v in given.items() if v}))

    def submit(self, url: str, action: str, **changes: Any) -> Seen:
        """Open a page, and send its form with changed fields."""
        page = self.get(url)
        to = next(to for method, to, _ in page.forms if action in to and method == "post")
        return self.post(urljoin(page.url, to), {**page.form(action), **changes})

    def connect(self, url: str, **changes: Any) -> str:
        """Open the question of a client, answer it, and return the URL to which the browser goes then."""
        page = self.get(url)
        to, fields = next((to, fields) for _, to, fields in page.forms if "authorize" in to)
        answer = {**fields, "scope": ["read", "write"], "store": "", "answer": "connect", **changes}
        self.http.follow_redirects = False
        answered = self.post(to, answer)
        self.http.follow_redirects = True
        assert answered.status == 303, answered.text
        return answered.headers["location"]


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _seen(answer: httpx2.Response) -> Seen:
    return Seen(answer.status_code, answer.headers, str(answer.url), answer.text)


def pages_of(store_id: str, **ids: str) -> list[str]:
    """The URL of every page with a GET, for these ids."""
    return [
        "/console" + re.sub(r"\{(\w+)(?::path)?\}", lambda found: {"store": store_id, **ids}[found[1]], route.path)
        for route in PAGES
        if route.method == "GET"
    ]


def query_of(url: str) -> dict[str, str]:
    """Query of a URL."""
    return dict(parse_qsl(urlsplit(url).query))
