# SPDX-License-Identifier: MIT OR Apache-2.0
"""Line plots as SVG text. Colours come from the page's style: classes c0, c1, ..."""

import math

WIDTH, HEIGHT = 420, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 12, 36


class Axis:
    """Maps values to pixels, linearly or logarithmically."""

    def __init__(self, low, high, pixel_low, pixel_high, log=False):
        self.low, self.high, self.log = low, high, log
        self.pixel_low, self.pixel_high = pixel_low, pixel_high

    def at(self, value):
        value = min(max(value, self.low), self.high)
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.pixel_low + part * (self.pixel_high - self.pixel_low)

    def ticks(self):
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 2))
        while (self.high - self.low) / step > 6:
            step *= 2 if (self.high - self.low) / step <= 12 else 5
        count = int((self.high - self.low) / step + 1e-9)
        return [self.low + i * step for i in range(count + 1)]


def x_axis(low, high, log=False):
    return Axis(low, high, LEFT, WIDTH - RIGHT, log)


def y_axis(low, high):
    return Axis(low, high, HEIGHT - BOTTOM, TOP)


def grid(x, y, x_label, y_label):
    parts = []
    for tick in x.ticks():
        at = x.at(tick)
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{tick:g}</text>')
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
    middle_x, middle_y = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{middle_x}" y="{HEIGHT - 4}" text-anchor="middle">{x_label}</text>')
    parts.append(f'<text transform="translate(12 {middle_y}) rotate(-90)" text-anchor="middle">{y_label}</text>')
    return parts


def line(x, y, points, css_class):
    path = " ".join(f"{x.at(px):.1f},{y.at(py):.1f}" for px, py in points)
    return f'<polyline class="{css_class}" points="{path}"/>'


def plot(x, y, x_label, y_label, lines, title):
    """lines: of (points, class). title: what a reader who cannot see it hears."""
    content = grid(x, y, x_label, y_label)
    content += [line(x, y, points, css_class) for points, css_class in lines]
    return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
            f'<title>{title}</title>{"".join(content)}</svg>')
