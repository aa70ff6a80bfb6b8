"""Rates of the detection of sensitive values: recall by family, and benign documents changed and flagged.

    python benchmarks/sensitive_values.py [--half seen|unseen] [--part values|benign] [--show]

Values are generated from public formats with a seed (tests/support/detection) and written to memory stores; a value
counts as found if nothing of it is left. Benign documents are generated ones, and real ones of this machine. Rules are
developed with the half `seen` and judged with the half `unseen`.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from difflib import unified_diff
from pathlib import Path

from figures import parser, report, table

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from benign_documents import collect, default_roots
from support.detection.benign import documents
from support.detection.cases import HALVES, cases
from support.detection.judge import Judge

SIZES = {"full": (8, 160, 20), "quick": (4, 40, 10), "tiny": (1, 1, 1)}
"""Values of each kind; real and generated documents of each kind."""
Counts = dict[tuple[str, str], Counter[str]]


def values(per_kind: int, half: str | None, *, show: bool) -> str:
    """Recall by family; `show` prints the texts whose value was not found."""
    counts: Counts = defaultdict(Counter)
    with Judge() as judge:
        for case in cases(1, per_kind=per_kind):
            if half not in (None, case.half):
                continue
            verdict = judge(case.text)
            found = not case.survives_in(verdict.both)
            for family in (case.family, "all"):
                counts[family, case.half].update(
                    texts=1, certain=int(not case.survives_in(verdict.certain)), found=int(found)
                )
            if show and not found:
                print(f"missed {case.kind}, {case.context}: {case.text[:400]!r}")
    rows = [
        (family, own, f"{count['texts']:,}", f"{count['certain'] / count['texts']:.1%}",
         f"{count['found']:,} of {count['texts']:,}")
        for (family, own), count in sorted(counts.items())
    ]  # fmt: skip
    return table(("values", "half", "texts", "certain alone", "found"), rows)


def benign(real: int, made: int, half: str | None, *, show: bool) -> str:
    """Benign documents changed and flagged, by source; `show` prints the changed lines."""
    collection = collect(default_roots(), per_kind=real, half=half)
    generated = [one for one in documents(1, per_kind=made) if half in (None, one.half)]
    counts: Counts = defaultdict(Counter)
    with Judge() as judge:
        for source, texts in (("real", collection.documents), ("generated", generated)):
            for document in texts:
                try:
                    verdict = judge(document.text)
                except ValueError:  # characters that no memory holds
                    collection.passed_over["refused by the store"] += 1
                    continue
                found = {"changed": int(verdict.changed), "flagged": int(verdict.flagged)}
                counts[source, document.half].update(documents=1, **found)
                if show and (verdict.changed or verdict.flagged):
                    lines = unified_diff(verdict.plain.split("\n"), verdict.both.split("\n"), document.name, n=0)
                    print("\n".join(line[:200] for line in lines))
    print("passed over:", ", ".join(f"{number} {reason}" for reason, number in collection.passed_over.most_common()))
    rows = [
        (source, own, f"{count['documents']:,}", f"{count['changed']:,} ({count['changed'] / count['documents']:.2%})",
         f"{count['flagged']:,} ({count['flagged'] / count['documents']:.2%})")
        for (source, own), count in sorted(counts.items())
    ]  # fmt: skip
    return table(("benign documents", "half", "documents", "changed", "flagged"), rows)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--half", choices=HALVES, help="only this half of the values and documents")
    options.add_argument("--part", choices=("values", "benign"), help="only this part")
    options.add_argument("--show", action="store_true", help="print the texts behind the figures")
    chosen = options.parse_args()
    per_kind, real, made = SIZES[chosen.size]
    tables = []
    if chosen.part != "benign":
        tables.append(values(per_kind, chosen.half, show=chosen.show))
    if chosen.part != "values":
        tables.append(benign(real, made, chosen.half, show=chosen.show))
    report(chosen, *tables)


if __name__ == "__main__":
    main()
