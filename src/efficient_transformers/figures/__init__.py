"""Every kind of figure in the book, one function each."""

from .charts import by_depth, compare_losses, curves, differences, dots, filters, plot_corpus, plot_losses, scatter
from .maps import heatmaps, kernel_map, leak_maps, masks, pixel_filters, spatial_weights
from .style import COLORS, DIVERGING, NEW, OTHERS, PLAIN, SEQUENTIAL, STYLE, bare_grid, nth_color, styled
from .variations import attention_maps, gain_map, gains, kernel_owners, knobs, verdicts, waves

__all__ = [
    "COLORS",
    "DIVERGING",
    "NEW",
    "OTHERS",
    "PLAIN",
    "SEQUENTIAL",
    "STYLE",
    "attention_maps",
    "bare_grid",
    "by_depth",
    "compare_losses",
    "curves",
    "differences",
    "dots",
    "filters",
    "gain_map",
    "gains",
    "heatmaps",
    "kernel_map",
    "kernel_owners",
    "knobs",
    "leak_maps",
    "masks",
    "nth_color",
    "pixel_filters",
    "plot_corpus",
    "plot_losses",
    "scatter",
    "spatial_weights",
    "styled",
    "verdicts",
    "waves",
]
