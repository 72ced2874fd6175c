"""Every kind of figure in the book, one function each."""

from .charts import by_depth, compare_losses, curves, differences, dots, filters, plot_corpus, plot_losses, scatter
from .gmlp import (
    by_rate,
    digit_filters,
    gate_and_attention,
    learned_bias,
    learned_matrix,
    loss_in_band,
    told_apart,
    triangle_tiles,
    written_out,
)
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
    "by_rate",
    "compare_losses",
    "curves",
    "differences",
    "digit_filters",
    "dots",
    "filters",
    "gate_and_attention",
    "heatmaps",
    "kernel_map",
    "leak_maps",
    "learned_bias",
    "learned_matrix",
    "loss_in_band",
    "masks",
    "nth_color",
    "pixel_filters",
    "plot_corpus",
    "plot_losses",
    "scatter",
    "spatial_weights",
    "styled",
    "told_apart",
    "triangle_tiles",
    "written_out",
]
