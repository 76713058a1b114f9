#!/usr/bin/env python3
"""Two result files of run.py beside each other: compare.py BEFORE.md AFTER.md

Instructions first, since they repeat to a fraction of a percent; times are for the eye.
"""

import argparse
import re
from pathlib import Path

COLUMNS = {"instructions": "instructions per item", "ns": "ns per item"}


def rows(path: Path) -> dict[str, dict[str, float]]:
    """Every task of a result file with its figures; a task without a figure has none under that key."""
    head, found = None, {}
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if head is None and cells[:1] == ["task"]:
            head = cells
        elif head and len(cells) == len(head) and not re.fullmatch("[-: ]+", cells[0]):
            figures = {key: cells[head.index(name)].replace(",", "") for key, name in COLUMNS.items()}
            found[cells[0]] = {key: float(text) for key, text in figures.items() if text}
    return found


def table(before: dict[str, dict[str, float]], after: dict[str, dict[str, float]]) -> str:
    lines = [f"{'task':<28}" + "".join(f"{f'{key} before':>22}{'after':>12}{'ratio':>8}" for key in COLUMNS)]
    for task in [*before, *(task for task in after if task not in before)]:
        line = f"{task:<28}"
        for key in COLUMNS:
            old, new = before.get(task, {}).get(key), after.get(task, {}).get(key)
            ratio = f"{new / old:.3f}" if old and new is not None else ""
            line += "".join(f"{text:>{width}}" for text, width in ((shown(old), 22), (shown(new), 12), (ratio, 8)))
        lines.append(line.rstrip())
    return "\n".join(lines)


def shown(figure: float | None) -> str:
    return "" if figure is None else f"{figure:,.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    args = parser.parse_args()
    print(table(rows(args.before), rows(args.after)))


if __name__ == "__main__":
    main()
