"""Rates of the detection of sensitive values: recall by kind, benign documents changed and flagged, speed.

    python benchmarks/sensitive_values.py [--half seen|unseen] [--part values|benign|speed] [--show] [--json FILE]

Values are generated from public formats with a seed (tests/support/detection) and written to memory stores; a value
counts as found if nothing of it is left. Benign documents are generated ones, and real ones of this machine.
Rules are developed with the half `seen` and judged with the half `unseen`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from figures import Sheet, announce, judged, parser, steps, surroundings, write_json

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from benign_documents import collect, default_roots
from examination_speed import ORDINARY, WORST
from support.detection.benign import Document, documents
from support.detection.cases import HALVES, Case, cases
from support.detection.judge import KNOWS_LIKELY, Judge, Verdict

PARTS = ("values", "benign", "speed")
PER_KIND = {"full": 8, "quick": 4, "tiny": 1}
DOCUMENTS = {"full": 160, "quick": 40, "tiny": 1}
GENERATED = {"full": 20, "quick": 10, "tiny": 1}
SPEED_BYTES = {"full": 1_000_000, "quick": 300_000, "tiny": 10_000}
MIN_RECALL = 0.97
MAX_CHANGED = 0.002
MAX_FLAGGED = 0.02
MAX_SECONDS_MB = 1.0
TIMEOUT_S = 60
EXAMPLES = 4  # finds shown of each document
MAX_SHOWN = 120
_MARK = re.compile(r"\[REDACTED(?::\w+)?\]")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A benign document with its verdict."""

    document: Document
    verdict: Verdict


def share(part: int, whole: int) -> str:
    """A percentage."""
    return f"{part / whole:.1%}" if whole else ""


def values(size: str, seed: int, half: str | None) -> tuple[Sheet, list[Case]]:
    """Recall by kind, and the texts whose value was not found."""
    sample = [case for case in cases(seed, per_kind=PER_KIND[size]) if half in (None, case.half)]
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    left: list[Case] = []
    with Judge() as judge, steps(len(sample), "values") as step:
        for case in sample:
            verdict = judge(case.text)
            certain = not case.survives_in(verdict.certain)
            found = not case.survives_in(verdict.both)
            for key in ((case.kind, case.half), (f"all of {case.family}", case.half), ("all kinds", case.half)):
                counts[key].update(texts=1, certain=int(certain), found=int(found))
            if not found:
                left.append(case)
            step(case.kind)
    rows, records = [], []
    for (kind, own), count in sorted(counts.items(), key=_order):
        recall = count["found"] / count["texts"]
        mark = judged(recall, MIN_RECALL) if kind == "all kinds" else ("" if recall == 1 else "missed")
        cells = (count["texts"], share(count["certain"], count["texts"]), share(count["found"], count["texts"]))
        rows.append((kind, own, *map(str, cells), mark))
        records.append({"kind": kind, "half": own, "recall": recall, **count})
    columns = ("kind", "half", "texts", "certain", "certain or likely", f"bar {MIN_RECALL:.0%}")
    return Sheet("Sensitive values found", columns, rows, records), left


def _order(item: tuple[tuple[str, str], Counter[str]]) -> tuple[int, str, str]:
    """Kinds first, then families, then all."""
    kind, half = item[0]
    return (kind.startswith("all of ") + 2 * (kind == "all kinds"), kind, half)


def benign(size: str, seed: int, half: str | None, roots: Sequence[Path]) -> tuple[Sheet, list[Found]]:
    """Shares of documents changed and flagged by kind, and those documents."""
    collection = collect(roots, per_kind=DOCUMENTS[size], half=half)
    generated = [one for one in documents(seed, per_kind=GENERATED[size]) if half in (None, one.half)]
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    found: list[Found] = []
    with Judge() as judge, steps(len(collection.documents) + len(generated), "benign") as step:
        for source, texts in (("real", collection.documents), ("generated", generated)):
            for document in texts:
                try:
                    one = Found(document=document, verdict=judge(document.text))
                except ValueError:  # characters that no memory holds
                    collection.passed_over["refused by the store"] += 1
                    continue
                changed, flagged = one.verdict.changed, one.verdict.flagged
                for kind in (document.kind, f"all, {document.half}"):
                    counts[source, kind].update(documents=1, changed=int(changed), flagged=int(flagged))
                if changed or flagged:
                    found.append(one)
                step(document.kind)
    print("passed over:", ", ".join(f"{count} {reason}" for reason, count in collection.passed_over.most_common()))
    return _benign_sheet(counts), found


def _benign_sheet(counts: dict[tuple[str, str], Counter[str]]) -> Sheet:
    rows, records = [], []
    order = sorted(counts.items(), key=lambda item: (item[0][0] != "real", item[0][1].startswith("all, "), item[0]))
    for (source, kind), count in order:
        total = count["documents"]
        verdict = ""
        if kind.startswith("all, "):
            both = (
                judged(count["changed"] / total, MAX_CHANGED, at_most=True),
                judged(count["flagged"] / total, MAX_FLAGGED, at_most=True),
            )
            verdict = "met" if both == ("met", "met") else "short"
        changed = f"{count['changed']} ({count['changed'] / total:.2%})"
        rows.append(
            (source, kind, str(total), changed, f"{count['flagged']} ({count['flagged'] / total:.2%})", verdict)
        )
        records.append({"source": source, "kind": kind, **count})
    columns = ("source", "kind", "documents", f"changed, bar {MAX_CHANGED:.1%}", f"flagged, bar {MAX_FLAGGED:.0%}", "")
    return Sheet("Benign documents", columns, rows, records)


def speed(size: str, only: Sequence[str]) -> Sheet:
    """Time of 1 MB, ordinary and at worst; each text in a process of its own."""
    rows: list[tuple[str, ...]] = []
    records: list[dict[str, object]] = []
    names = [name for name in (ORDINARY | WORST) if not only or name in only]
    with steps(len(names), "speed") as step:
        for name in names:
            seconds_mb, growth = _seconds_mb(name, size)
            verdict = "short" if seconds_mb is None else judged(seconds_mb, MAX_SECONDS_MB, at_most=True)
            taken = f"over {TIMEOUT_S} s" if seconds_mb is None else f"{seconds_mb * 1000:.0f} ms"
            rate = f"{1 / seconds_mb:.1f}" if seconds_mb else ""
            kind = "worst case" if name in WORST else "ordinary"
            rows.append((name, kind, taken, rate, f"{growth:.1f}" if growth else "", verdict))
            records.append({"text": name, "seconds_mb": seconds_mb, "growth": growth, "verdict": verdict})
            step(name)
    columns = ("text", "kind", "1 MB", "MB/s", "growth, 125 KB to 1 MB", f"bar {MAX_SECONDS_MB * 1000:.0f} ms")
    return Sheet("Examination of 1 MB", columns, rows, records)


def _seconds_mb(name: str, size: str) -> tuple[float | None, float | None]:
    """Seconds for 1 MB of a text and the growth from an eighth of it, None if it takes too long."""
    script = Path(__file__).with_name("examination_speed.py")
    command = [sys.executable, str(script), "--bytes", str(SPEED_BYTES[size]), "--only", name]
    command += ["--runs", "5" if size == "full" else "2"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None, None
    (one,) = json.loads(ended.stdout)
    return float(one["least_s"]) * 1e6 / float(one["bytes"]), float(one["growth"])


def replaced(before: str, after: str) -> Iterator[tuple[int, str, str]]:
    """Line number, marker and context of each span that a marker replaced."""
    lines, kept = before.split("\n"), after.split("\n")
    for what, start, end, first, last in SequenceMatcher(None, lines, kept, autojunk=False).get_opcodes():
        if what != "replace":
            continue
        old, new = "\n".join(lines[start:end]), "\n".join(kept[first:last])
        literals, markers = _MARK.split(new), _MARK.findall(new)
        match = re.fullmatch("(.*?)".join(map(re.escape, literals)), old, re.DOTALL)
        spans = [match.span(at + 1) for at in range(len(markers))] if match else [(0, len(old))]
        for (begin, stop), marker in zip(spans, markers, strict=False):
            value = old[begin : min(stop, begin + MAX_SHOWN)]
            shown = f"{old[max(begin - 60, 0) : begin]}»{value}«{old[stop : stop + 30]}".replace("\n", "⏎")
            yield start + 1 + old.count("\n", 0, begin), marker, shown


def show_missed(left: Iterable[Case]) -> None:
    """Print the texts whose value was not found."""
    for case in left:
        print(f"missed {case.kind}, {case.context}: {case.text[:400]!r}")


def show_finds(found: Iterable[Found]) -> None:
    """Print what was changed or flagged in benign documents."""
    seen: Counter[tuple[str, str]] = Counter()
    for one in found:
        verdict = one.verdict
        for word, before, after in (
            ("changed", verdict.plain, verdict.certain),
            ("flagged", verdict.certain, verdict.both),
        ):
            for line, kind, shown in replaced(before, after):
                seen[one.document.name, word] += 1
                if seen[one.document.name, word] <= EXAMPLES:
                    print(f"{word} {one.document.kind}: {one.document.name}:{line} {kind} {shown}")


def main() -> None:
    """Measure, show, and write."""
    options = parser(__doc__)
    options.add_argument("--half", choices=HALVES, help="only this half of the values and documents")
    options.add_argument("--part", action="append", choices=PARTS, help="only this part (repeatable)")
    options.add_argument("--seed", type=int, default=1, help="seed of the generated values (default: 1)")
    options.add_argument("--root", action="append", type=Path, default=[], help="one more folder of benign documents")
    options.add_argument("--only-root", action="store_true", help="no folders but those of --root")
    options.add_argument("--only-text", action="append", default=[], help="only this text of the speed part")
    options.add_argument("--show", action="store_true", help="print the texts behind the figures")
    chosen = options.parse_args()
    around = surroundings(chosen.dir) | {"half": chosen.half or "both", "likely_finds": KNOWS_LIKELY}
    announce(around)
    sheets: list[Sheet] = []
    parts = chosen.part or PARTS
    if "values" in parts:
        sheet, left = values(chosen.size, chosen.seed, chosen.half)
        sheets.append(sheet)
        if chosen.show:
            show_missed(left)
    if "benign" in parts:
        roots = [*chosen.root, *([] if chosen.only_root else default_roots())]
        sheet, found = benign(chosen.size, chosen.seed, chosen.half, roots)
        sheets.append(sheet)
        if chosen.show:
            show_finds(found)
    if "speed" in parts:
        sheets.append(speed(chosen.size, chosen.only_text))
    for sheet in sheets:
        sheet.show()
        print()
    if chosen.json:
        write_json(chosen.json, "sensitive_values", chosen.size, around, sheets)


if __name__ == "__main__":
    main()
