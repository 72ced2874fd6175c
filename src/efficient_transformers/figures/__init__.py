"""Every kind of figure in the book, one function each."""

from .charts import by_depth, compare_losses, curves, differences, dots, filters, plot_corpus, plot_losses, scatter
from .hourglass import by_hand, cost_by_length, stairs, waist, who_sees_whom, window_attention
from .maps import heatmaps, kernel_map, leak_maps, masks, pixel_filters, spatial_weights
from .style import COLORS, DIVERGING, NEW, OTHERS, PLAIN, SEQUENTIAL, STYLE, bare_grid, nth_color, styled

__all__ = [
    "COLORS",
    "DIVERGING",
    "NEW",
    "OTHERS",
    "PLAIN",
    "SEQUENTIAL",
    "STYLE",
    "bare_grid",
    "by_depth",
    "by_hand",
    "compare_losses",
    "cost_by_length",
    "curves",
    "differences",
    "dots",
    "filters",
    "heatmaps",
    "kernel_map",
    "leak_maps",
    "masks",
    "nth_color",
    "pixel_filters",
    "plot_corpus",
    "plot_losses",
    "scatter",
    "spatial_weights",
    "stairs",
    "styled",
    "waist",
    "who_sees_whom",
    "window_attention",
]
