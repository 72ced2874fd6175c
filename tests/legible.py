"""What a reader can make out: sizes, overlaps, and contrasts as a page shows them, in the light and in the dark."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.text import Text

DARK_PAGE = np.array([0x14, 0x18, 0x1E]) / 255
LEAST = 12  # points

# For files that test drawings: drawn without a warning, but for what an older matplotlib calls in a newer pyparsing.
DRAWINGS = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings(r"ignore:'\w+' .*deprecated.* use '\w+':DeprecationWarning"),
    pytest.mark.usefixtures("drawn"),
]


def letters(figure):
    """Every text that is shown, in a figure that has been drawn."""
    for ax in figure.axes:  # ticks beyond the limits exist, but are not drawn
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                inside = low - 1e-9 <= tick.get_loc() <= high + 1e-9 and axis.get_visible() and ax.axison
                for text in (tick.label1, tick.label2):
                    text.set_visible(text.get_visible() and bool(inside))
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def small_letters(figure):
    """Texts below the least size; an index or an exponent counts with its own."""
    found = []
    for text in letters(figure):
        raised = "$" in text.get_text().replace(r"\$", "") and any(sign in text.get_text() for sign in "^_")
        if text.get_fontsize() * (0.7 if raised else 1) < LEAST:
            found.append(text.get_text())
    return found


def width(figure):
    """How wide the figure is when it is stored, cut at its contents, without the margin, in inches."""
    return max(figure.get_figwidth(), figure.get_tightbbox().width)


def collisions(figure):
    """Pairs of texts that cover each other, and texts beyond the figure's edge."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in letters(figure)]
    page = figure.bbox
    found = [
        (a, b)
        for i, (a, first) in enumerate(boxes)
        for b, second in boxes[i + 1 :]
        if min(first.x1, second.x1) - max(first.x0, second.x0) > 1.5
        and min(first.y1, second.y1) - max(first.y0, second.y0) > 2.5
    ]
    return found + [(a, "edge") for a, box in boxes if box.x0 < page.x0 - 2 or box.x1 > page.x1 + 2]


def linear(color):
    color = np.asarray(color)
    return np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)


def contrast(first, second):
    """As the Web Content Accessibility Guidelines define it."""
    low, high = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (first, second))
    return (high + 0.05) / (low + 0.05)


def in_the_dark(color):
    """A color of a figure on the dark page: invert(1) hue-rotate(180deg) saturate(1.25), and the blend mode screen."""
    gray = np.array([[0.213, 0.715, 0.072]] * 3)
    hue = gray - np.array([[0.787, -0.715, -0.072], [-0.213, 0.285, -0.072], [-0.213, -0.715, 0.928]])
    saturation = gray + 1.25 * (np.eye(3) - gray)
    turned = np.clip(hue @ (1 - np.asarray(color)), 0, 1)
    shown = np.clip(saturation @ turned, 0, 1)
    return 1 - (1 - DARK_PAGE) * (1 - shown)


EYES = {  # Machado, Oliveira and Fernandes (2009), for whom a kind of cone is missing
    "all": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


def seen_by(eyes, first, second):
    """How far apart two colors are for such eyes, in CIELAB, where 2 is just noticeable."""

    def lab(color):
        light = np.clip(EYES[eyes] @ linear(color), 0, 1)
        xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ light
        ratio = xyz / [0.95047, 1, 1.08883]
        x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    return float(np.linalg.norm(lab(first) - lab(second)))
