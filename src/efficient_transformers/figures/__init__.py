"""Every kind of figure in the book, one function each."""

from .charts import by_depth, compare_losses, curves, differences, dots, filters, plot_corpus, plot_losses, scatter
from .maps import heatmaps, kernel_map, leak_maps, masks, pixel_filters, spatial_weights
from .primer_ez import learned_kernels, readings, worked_example
from .style import COLORS, DIVERGING, NEW, OTHERS, PLAIN, SEQUENTIAL, STYLE, bare_grid, nth_color, styled
from .transformer import clock_hands, head_maps, loss_and_landmarks, reading

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
    "clock_hands",
    "compare_losses",
    "curves",
    "differences",
    "dots",
    "filters",
    "head_maps",
    "heatmaps",
    "kernel_map",
    "leak_maps",
    "learned_kernels",
    "loss_and_landmarks",
    "masks",
    "nth_color",
    "pixel_filters",
    "plot_corpus",
    "plot_losses",
    "reading",
    "readings",
    "scatter",
    "spatial_weights",
    "styled",
    "worked_example",
]
