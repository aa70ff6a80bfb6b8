"""Long random walk of commands, with more memories and versions than the examples of hypothesis."""

from __future__ import annotations

import random

from .model import Model
from .shape import Fields

# Names that sort around `/`, are special in SQL, shells or file systems, or exist in two Unicode forms.
NAMES_USED = ("a", "b", "a b", "a.txt", "a0", "A", "é", "e\u0301", "%", "_", "it's", "😀", "100%.md", "報告．md", "a-b")
HIDDEN = (".github", "node_modules", ".a", "..a", "node_modules2")
LINE_ENDS = "\n\n\n\r\u2028\x0b\x0c\x85"
REFUSED = (
    "",
    "/",
    "memories/a",
    "/etc/passwd",
    "/memoriesfoo",
    "/memories/..",
    "/memories/a/../b",
    "/memories/./a",
    "/memories/%2e%2e%2fa",
    "/memories/%252e%252e",
    "/memories/．．",
    "/memories/‥",
    "/memories/a\\b",
    "/memories/a\x00b",
    "/memories/a\u200bb",
    "/memories/a\u200d",
    "/memories/.\u200c.",
    "/memories/.git/config",
    "/memories/a/.GI\u200dT",
    "/memories/a\u2028b",
    "/memories/\ud800",
    "/memories/" + "x" * 256,
    "/memories/" + "é" * 128,
    "/memories" + "/x" * 21,
    "/memories/" + "/".join(["x" * 204] * 5),
)
_WEIGHTS = {"create": 4, "view": 5, "str_replace": 5, "insert": 3, "delete": 1, "rename": 3}


class Walk:
    """Commands for a model, which a seed reproduces. Most are about memories below `home`."""

    def __init__(self, seed: int, model: Model, home: str = "/memories") -> None:
        self.random = random.Random(seed)
        self.model = model
        self.home = home

    def command(self) -> Fields:
        """Return the next command."""
        name = self.random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        if name == "rename":
            return {"command": name, "old_path": self.path(), "new_path": self.path(new=True)}
        command: Fields = {"command": name, "path": self.path(new=name == "create")}
        text = self.model.tree.get(str(command["path"]), "")
        if name == "create":
            command["file_text"] = self.text(30)
        elif name == "view" and self.random.random() < 0.6:
            command["view_range"] = self.lines(text)
        elif name == "str_replace":
            command |= {"old_str": self.part_of(text), "new_str": self.text(4)}
        elif name == "insert":
            command |= {"insert_line": self.random.randint(-1, text.count("\n") + 2), "insert_text": self.text(3)}
        return command

    def path(self, *, new: bool = False) -> str:
        """Return a path that mostly exists or, with `new`, mostly a path below or beside an existing one."""
        choose, tree = self.random.choice, sorted(self.model.tree) or [f"{self.home}/a"]
        known = choose(tree)
        above = known.rsplit("/", 1)[0]
        if self.random.random() < (0.75 if new else 0.1):
            names = [choose(NAMES_USED + HIDDEN) for _ in range(self.random.choice((1, 1, 1, 2, 3, 7)))]
            base = choose([above, above, self.home, known if self.random.random() < 0.2 else above])
            return "/".join([base, *names])
        return str(self.random.choices([known, above, above + "/", known + "/", choose(REFUSED)], [20, 5, 1, 1, 1])[0])

    def text(self, most: int) -> str:
        """Return a text of up to `most` pieces, many of which are line ends."""
        pieces = ["\n", "a", "b", "ab", "é😀", " ", "x" * 9, self.random.choice(LINE_ENDS), "\n\n"]
        return "".join(self.random.choice(pieces) for _ in range(self.random.randint(0, most)))

    def part_of(self, text: str) -> str:
        start = self.random.randint(0, len(text))
        return text[start : start + self.random.choice((1, 2, 3, 5, 9))]

    def lines(self, text: str) -> list[int]:
        count = text.count("\n") + 1
        first = self.random.randint(-1 if self.random.random() < 0.1 else 1, count)
        return [first, self.random.choice([-1, first, count, count + 5, self.random.randint(first - 1, count + 1)])]
