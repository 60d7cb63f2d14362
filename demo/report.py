# SPDX-License-Identifier: MIT OR Apache-2.0
"""The demo's table for the terminal, and its page with plots: one file, nothing fetched."""

import html

import svg
from figures import SKIP_S, throughput_percent

FRAMES_PER_S = 24

COLUMNS = [
    # title, unit, value of a round
    ("frames/s", "sum", lambda r, _: f"{r.figures['frames_per_s_sum']:.1f}"),
    ("throughput", "% of one process", lambda r, rounds: percent(throughput_percent(r, rounds))),
    ("spread", "CV %", lambda r, _: percent(r.figures["frames_per_s_cv_percent"])),
    ("tardiness", "mean ms", lambda r, _: f"{r.figures['tardiness_mean_ms']:.2f}"),
    ("", "p99 ms", lambda r, _: f"{r.figures['tardiness_p99_ms']:.2f}"),
    ("", "max ms", lambda r, _: f"{r.figures['tardiness_max_ms']:.2f}"),
    ("switches", "per s", lambda r, _: f"{r.switches_per_s:.0f}"),
]

STYLE = """
:root { --fg: #222; --bg: #fff; --grid: #ddd;
  --c0: #c0392b; --c1: #d68910; --c2: #1e8449; --c3: #2471a3; }
@media (prefers-color-scheme: dark) { :root { --fg: #ddd; --bg: #1b1b1b; --grid: #444;
  --c0: #ff7b6b; --c1: #f5b041; --c2: #58d68d; --c3: #7fb3ff; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg);
  max-width: 960px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3em .6em; text-align: right; border-bottom: 1px solid var(--grid); }
th:first-child, td:first-child { text-align: left; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(380px, 1fr)); gap: 1em; }
svg { width: 100%; } svg text { font-size: 11px; fill: var(--fg); }
.grid { stroke: var(--grid); } polyline { fill: none; stroke-width: 1.6; stroke-opacity: .75; }
.c0 { stroke: var(--c0); } .c1 { stroke: var(--c1); } .c2 { stroke: var(--c2); } .c3 { stroke: var(--c3); }
.key span::before { content: "\\2014\\2009"; font-weight: bold; } .key span { margin-right: 1.5em; }
.k0 { color: var(--c0); } .k1 { color: var(--c1); } .k2 { color: var(--c2); } .k3 { color: var(--c3); }
"""


def percent(value):
    return "-" if value is None else f"{value:.1f}"


def table(rounds):
    """For the terminal: the figures of the rounds, then frames/s of each player."""
    rows = [["", *(title for title, _, _ in COLUMNS)], ["", *(unit for _, unit, _ in COLUMNS)]]
    rows += [[r.title, *(value(r, rounds) for _, _, value in COLUMNS)] for r in rounds]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [""]
    for row in rows:
        cells = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells))
    lines += ["", f"Frames/s of each player (of {FRAMES_PER_S})"]
    for r in rounds:
        rates = " ".join(f"{rate:4.1f}" for rate in r.figures["frames_per_s"])
        lines.append(f"{r.title.ljust(widths[0])}  {rates}")
    return "\n".join(lines)


def html_table(rounds):
    head = "".join(f"<th>{title}<br>{unit}</th>" for title, unit, _ in COLUMNS)
    body = "".join(
        f"<tr><td>{html.escape(r.title)}</td>"
        + "".join(f"<td>{value(r, rounds)}</td>" for _, _, value in COLUMNS) + "</tr>"
        for r in rounds
    )
    return f"<table><tr><th></th>{head}</tr>{body}</table>"


def frames_plot(round_, colour):
    series = round_.frames_in_each_second()
    lines = [([(s + 0.5, n) for s, n in enumerate(shown)], f"c{colour}") for shown in series]
    axes = svg.x_axis(0, round_.seconds), svg.y_axis(0, FRAMES_PER_S)
    title = f"{round_.title}: frames per second of each player over time"
    return svg.plot(*axes, "second", "frames shown", lines, title)


def tardiness_plot(rounds):
    """Part of the due events that were served within a time."""
    all_ms = [ms for r in rounds for ms in (r.tardiness_ms()[0], r.tardiness_ms()[-1])]
    x = svg.x_axis(max(0.01, min(all_ms)), max(10.0, max(all_ms)), log=True)
    lines = []
    for colour, r in enumerate(rounds):
        late_ms = r.tardiness_ms()
        step = max(1, len(late_ms) // 400)
        points = [(ms, 100 * (i + 1) / len(late_ms)) for i, ms in enumerate(late_ms)]
        lines.append((points[::step] + points[-1:], f"c{colour}"))
    return svg.plot(x, svg.y_axis(0, 100), "tardiness, ms", "% of due events", lines,
                    "Part of the due events served within a time, for each round")


def write(path, rounds, place, cpus):
    """cpus: how many, as text."""
    count = len(rounds[0].players)
    key = "".join(f'<span class="k{i}">{html.escape(r.title)}</span>' for i, r in enumerate(rounds))
    plots = "".join(
        f"<figure><figcaption>{html.escape(r.title)}</figcaption>{frames_plot(r, i)}</figure>"
        for i, r in enumerate(rounds)
    )
    path.write_text(f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Consort: {count} players on {cpus}</title>
<style>{STYLE}</style>
<h1>{count} video players on {cpus}</h1>
<p>Each plays another part of a film of {FRAMES_PER_S} frames/s and leaves out pictures when {cpus} cannot decode
all. Run in: {html.escape(place)}. The first {SKIP_S:g} s are left out of the figures.</p>
{html_table(rounds)}
<h2>Frames per second of each player</h2>
<p>One line a player. Close together: the players lose the same quality.</p>
<div class="plots">{plots}</div>
<h2>Tardiness: how late frames are shown</h2>
<p>From a frame's due time to when its player ran. Further left is better.</p>
<p class="key">{key}</p>
<div class="plots"><figure>{tardiness_plot(rounds)}</figure></div>
<p><small>Film: "Big Buck Bunny", &copy; 2008 Blender Foundation, www.bigbuckbunny.org, CC-BY 3.0.</small></p>
</html>
""", encoding="utf-8")
