"""Texts that each contain a sensitive value, generated from a seed.

Half of the texts are for the development of rules, and the other half tests the rules.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from support.detection.contexts import GROUPS
from support.detection.draw import of, password
from support.detection.phrases import LINES, PROSE
from support.detection.values import Kind, kinds, without_marks

HALVES = ("seen", "unseen")
_BREAKS = re.compile(r"\s+|\\n|[\u200b\u200c\u2060\ufeff\u00ad]")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A text with the sensitive values as they are written in the text. A family is a set of kinds that occur alike."""

    kind: str
    family: str
    context: str
    half: str
    text: str
    written: tuple[str, ...]

    def survives_in(self, stored: str) -> bool:
        """Return whether the stored text still contains a value, half of a value, or one of its longer parts."""
        return any(piece in stored for written in self.written for piece in _pieces(written))


def _pieces(written: str) -> Iterator[str]:
    yield written
    if len(written) >= 16:
        middle = len(written) // 2
        yield from (written[:middle], written[middle:])
    for part in _BREAKS.split(written):
        if len(part) >= 10 and not part.startswith("-----") and not part.endswith("-----"):
            yield part


def half_of(name: str) -> str:
    """Return the half to which a kind or a context belongs. The half depends only on the name."""
    return HALVES[hashlib.sha256(f"halves 1 {name}".encode()).digest()[0] & 1]


def cases(seed: int = 1, *, per_kind: int = 6) -> list[Case]:
    """Return the sample of a seed: up to `per_kind` texts of each kind, each in another context."""
    found: list[Case] = []
    for kind in kinds():
        rng = Random(f"{seed} {kind.name}")
        found += _in_contexts(kind, rng, per_kind)
    for language, sentences in PROSE.items():
        found += _phrases("prose", f"prose-{language}", sentences, seed, 2 * per_kind)
    for name, lines in LINES.items():
        found += _phrases("lines", name, lines, seed, per_kind)
    return found


def _in_contexts(kind: Kind, rng: Random, count: int) -> Iterator[Case]:
    """Yield texts of a kind, in contexts of the same half."""
    half = half_of(kind.name)
    names = [name for name in GROUPS[kind.group] if name == "own" or half_of(f"{kind.group} {name}") == half]
    rng.shuffle(names)
    for at in range(count):
        name = names[at % len(names)]
        value = kind.make(rng)
        text, written = _placed(GROUPS[kind.group][name], kind, value)
        yield Case(kind=kind.name, family=kind.group, context=name, half=half, text=text, written=(written,))


def _placed(context: str, kind: Kind, value: str) -> tuple[str, str]:
    """Insert the value into the context. Returns the text and the sensitive part as it is written in the text."""
    if "{v:indented}" in context:
        context = context.replace("{v:indented}", "{v}")
        value = "\n".join("    " + line for line in value.split("\n"))
    elif "{v:escaped}" in context:
        context = context.replace("{v:escaped}", "{v}")
        value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    _, _, marked = value.partition("«")
    secret = marked.partition("»")[0] if marked else value
    return context.format(v=without_marks(value), k=kind.key), secret


def _phrases(family: str, name: str, templates: tuple[str, ...], seed: int, count: int) -> Iterator[Case]:
    """Yield texts of a kind that is a list of templates. Each template belongs to one of the halves."""
    rng = Random(f"{seed} {name}")
    split = len(templates) >= 6
    for at in range(count):
        place = at % len(templates)
        values = {"v": password(rng), "w": password(rng), "t": of(rng, "a", 36)}
        values["b"] = base64.b64encode(values["w"].encode()).decode()
        written = tuple(value for slot, value in values.items() if f"{{{slot}}}" in templates[place])
        half = half_of(f"{name} {place}") if split else half_of(name)
        text = templates[place].format(**values)
        yield Case(kind=name, family=family, context=f"template {place}", half=half, text=text, written=written)
