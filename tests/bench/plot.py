#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the figures of a benchmark's CSV file as SVG: plot.py FILE.csv FOLDER. Needs nothing but Python."""
import csv
import math
import re
import sys
from collections import defaultdict
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 76, 300, 44, 48
COLOURS = ["#4b5563", "#2563eb", "#dc2626", "#059669", "#9333ea", "#d97706", "#0891b2", "#be185d"]

# file, what the table's title begins with, the measure, what stands in front of a row's number, title, axes
PLOTS = [
    ("handoff-p50", "Hand-off, owners working", "hand-off p50 µs", "W", "Hand-off, median", "waiting threads", "µs"),
    ("handoff-p99", "Hand-off, owners working", "p99 µs", "W", "Hand-off, 99th percentile", "waiting threads", "µs"),
    ("threads", "Uncontended pairs of many threads", "pairs/s", "T", "Acquire and release, names of their own", "threads", "pairs/s"),
    ("quorum", "Uncontended acquire and release at a quorum", "p50 µs", "frozen", "Acquire and release at a quorum, median", "frozen nodes", "µs"),
    ("renewal", "Held leases", "CPU %", "L", "Renewal of held leases, TTL 10 s", "leases", "% of one core"),
]


def series_of(rows, table, measure, letter):
    """title -> [(x, y)] of the rows that look like 'W = 8: title'."""
    result = defaultdict(list)
    for row in rows:
        number = re.match(rf"(?:(.*), )?{letter} = (\d+): (.*)", row["what"])
        if row["table"].startswith(table) and row["measure"] == measure and number and row["value"]:
            before, x, title = number.groups()
            result[", ".join(filter(None, (before, title)))].append((int(x), float(row["value"])))
    return {title: sorted(points) for title, points in result.items()}


def nice(value):
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def draw(title, x_axis, y_axis, series):
    xs = sorted({x for points in series.values() for x, _ in points})
    ys = [y for points in series.values() for _, y in points if y > 0]
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    high = max(high, low + 1)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def at_x(x):  # one step for each value measured
        return LEFT + (right - LEFT) * (xs.index(x) + 0.5) / len(xs)

    def at_y(y):
        return bottom - (bottom - TOP) * (math.log10(max(y, 10**low)) - low) / (high - low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{title}</text>',
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{x_axis}</text>',
        f'<text x="14" y="{(TOP + bottom) / 2}" text-anchor="middle" transform="rotate(-90 14 {(TOP + bottom) / 2})">{y_axis}</text>',
    ]
    for power in range(low, high + 1):
        y = at_y(10**power)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{nice(10**power)}</text>')
    for x in xs:
        out.append(f'<text x="{at_x(x):.1f}" y="{bottom + 18}" text-anchor="middle">{x:,}</text>')
    for index, (name, points) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colour}"><title>{nice(y)}</title></circle>' for x, y in points]
        y = TOP + 16 * index
        out.append(f'<rect x="{right + 14}" y="{y}" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{right + 30}" y="{y + 9}">{name}</text>')
    return "\n".join(out + ["</svg>", ""])


def main(source, folder):
    with open(source, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, table, measure, letter, title, x_axis, y_axis in PLOTS:
        series = series_of(rows, table, measure, letter)
        if series:
            (folder / f"{name}.svg").write_text(draw(title, x_axis, y_axis, series), encoding="utf-8")
            print(folder / f"{name}.svg")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
