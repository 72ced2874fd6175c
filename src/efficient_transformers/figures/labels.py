"""Labels beside points: none covers a point or another label."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import GREY

Box = tuple[float, float, float, float]  # left, bottom, right, top, in pixels
STEPS = sorted(itertools.product(range(-180, 181, 10), range(-140, 141, 7)), key=lambda d: abs(d[0]) + 2.2 * abs(d[1]))


def place_labels(figure: Figure, ax: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """Write each label at the nearest place that is free, and draw a line to it where that is not beside its point."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the axes stay where they are measured
    scale = figure.dpi / 72
    around = 5 * scale
    places = {label: ax.transData.transform(point) for label, point in points.items()}
    taken: list[Box] = [(x - around, y - around, x + around, y + around) for x, y in places.values()]
    inside = ax.get_window_extent()
    zero = ax.transData.transform((0, 0))[1]  # the line that points are compared with
    taken.append((inside.x0, zero - 2, inside.x1, zero + 2))
    back = ax.transData.inverted().transform
    for label, (x, y) in places.items():
        text = ax.text(0, 0, label, ha="left", va="center")
        extent = text.get_window_extent()
        width, height = extent.width, 0.85 * extent.height
        for dx, dy in STEPS:
            left = x + (dx + 8) * scale if dx >= 0 else x + (dx - 8) * scale - width
            middle = y + dy * scale
            box = (left, middle - height / 2, left + width, middle + height / 2)
            within = box[0] >= inside.x0 + 2 and box[2] <= inside.x1 and box[1] >= inside.y0 and box[3] <= inside.y1
            if within and all(box[2] < t[0] or t[2] < box[0] or box[3] < t[1] or t[3] < box[1] for t in taken):
                break
        taken.append(box)
        text.set_position(tuple(back((left, middle))))
        if abs(dx) > 5 or abs(dy) > 5:
            end = back((left - 2 if dx >= 0 else left + width + 2, middle))
            ax.plot([points[label][0], end[0]], [points[label][1], end[1]], color=GREY, lw=0.7, zorder=1)
