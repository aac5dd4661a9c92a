#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a comparison that `capstan perf --against --json=FILE` has stored: picture.py FILE > PICTURE.svg

A panel for each collective, sizes from left to right. A point is the time of a library, in the fastest of its
ways, over Capstan's in the same rounds, with half of the rounds' spread to each side; below the line at 1 the
library is ahead. Points of cells that were measured while the machine was busy are hollow.
"""

import json
import math
import sys
from html import escape

NAMES = {"intelmpi": "Intel MPI", "openmpi5": "Open MPI 5", "mpich5": "MPICH 5", "openmpi": "Open MPI 4", "mpich": "MPICH 4",
         "gloo": "Gloo", "ucc": "UCC", "oneccl": "oneCCL"}
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d1f", "#666666", "#000000"]
WIDTH, LEFT, TOP, HEIGHT, GAP, BELOW = 880, 44, 62, 190, 16, 62
MOST_IN_A_ROW, ROW = 4, HEIGHT + 56
LOWEST, HIGHEST = 0.5, 32.0


def size_text(size):
    for power, unit in ((20, "M"), (10, "K")):
        if size >= 1 << power:
            return f"{size >> power}{unit}"
    return str(size)


def height_of(ratio):
    share = math.log(min(max(ratio, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return TOP + HEIGHT * (1 - share)


def text(x, y, words, anchor="middle", style=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(words)}</text>'


def grid(x, width, title):
    yield f'<rect x="{x:.1f}" y="{height_of(1):.1f}" width="{width:.1f}" height="{TOP + HEIGHT - height_of(1):.1f}" fill="#f6e3e0"/>'
    ratio = LOWEST
    while ratio <= HIGHEST:
        yield (f'<path d="M{x:.1f} {height_of(ratio):.1f}h{width:.1f}" stroke="{"#1c1c1c" if ratio == 1 else "#dddddd"}"/>')
        ratio *= 2
    yield text(x + width / 2, TOP - 8, title, style=' font-weight="bold"')


def curve(cells, peer, colour, places):
    points = [(places[c["bytes"]], c["peers"][peer], c["machine"]["busy"]) for c in cells if peer in c["peers"]]
    if not points:
        return
    line = " ".join(f"{x:.1f},{height_of(p['ratio']):.1f}" for x, p, _ in points)
    yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for x, p, busy in points:
        ratio, half = p["ratio"], p["ratio_spread"] / 2
        yield (f'<path d="M{x:.1f} {height_of(ratio * (1 + half)):.1f}V{height_of(ratio * max(1 - half, 0.01)):.1f}" '
               f'stroke="{colour}" opacity="0.5"/>')
        yield (f'<circle cx="{x:.1f}" cy="{height_of(ratio):.1f}" r="3" stroke="{colour}" fill="{"#ffffff" if busy else colour}">'
               f"<title>{ratio:.2f} times Capstan's {p['median_us'] / ratio:.2f} us</title></circle>")


def panel(cells, peers, left, width, title):
    sizes = sorted({c["bytes"] for c in cells})
    places = {size: left + width * (i + 0.5) / len(sizes) for i, size in enumerate(sizes)}
    yield from grid(left, width, title)
    for peer, colour in zip(peers, COLOURS):
        yield from curve(cells, peer, colour, places)
    for size in sizes:
        yield text(places[size], TOP + HEIGHT + 14, size_text(size), style=' font-size="10"')


def caption(results):
    cells, origin = results["cells"], results["origin"]
    lost = sum(c["ratio"] < 1 for c in cells if "ratio" in c)
    busy = sum(c["machine"]["busy"] for c in cells)
    ranks = sorted({c["ranks"] for c in cells})
    yield (f"{', '.join(map(str, ranks))} ranks on {origin['machine']}. Capstan {results['geometric_mean']:.2f} times as fast as the "
           f"best of all (geometric mean); {lost} of {len(cells)} cells lost")
    versions = [origin[peer].split(",")[0] for peer in ("intelmpi", "openmpi5", "mpich5") if peer in origin]
    yield (f"{', '.join(versions)}; {origin['date']}, load {origin['load'].split()[0]}"
           + (f"; hollow: measured while the machine was busy ({busy})" if busy else ""))


def picture(results):
    cells = results["cells"]
    collectives = list(dict.fromkeys(c["collective"] for c in cells))
    peers = [p for p in NAMES if any(p in c["peers"] for c in cells)]
    rows = -(-len(collectives) // MOST_IN_A_ROW)
    columns = -(-len(collectives) // rows)
    width = (WIDTH - LEFT - GAP * columns) / columns
    lowest = TOP + HEIGHT + ROW * (rows - 1)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {lowest + BELOW}" '
           'font-family="system-ui, sans-serif" font-size="12" fill="#1c1c1c">')
    yield f'<rect width="{WIDTH}" height="{lowest + BELOW}" fill="#ffffff"/>'
    yield text(LEFT, 18, "Time of a library over Capstan's: above 1 Capstan is faster", "start", ' font-size="14"')
    x = WIDTH - GAP
    for peer, colour in reversed(list(zip(peers, COLOURS))):
        yield text(x, 18, NAMES[peer], "end", f' fill="{colour}" font-weight="bold"')
        x -= 7.5 * len(NAMES[peer]) + 16
    for row in range(rows):
        yield f'<g transform="translate(0 {ROW * row})">'
        for i in range(int(math.log2(HIGHEST / LOWEST)) + 1):
            yield text(LEFT - 6, height_of(LOWEST * 2**i) + 4, f"{LOWEST * 2 ** i:g}", "end")
        for column, collective in enumerate(collectives[row * columns:(row + 1) * columns]):
            mine = [c for c in cells if c["collective"] == collective]
            yield from panel(mine, peers, LEFT + column * (width + GAP), width, collective)
        yield "</g>"
    for number, line in enumerate(caption(results)):
        yield text(LEFT, lowest + 36 + 16 * number, line, "start", ' font-size="11" fill="#555555"')
    yield "</svg>"


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        results = json.load(file)
    if results.get("command") != "perf --against":
        sys.exit(f"{sys.argv[1]}: these are no results of capstan perf --against")
    print("\n".join(picture(results)))


if __name__ == "__main__":
    main()
