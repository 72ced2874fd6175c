"""Every kind of figure in the book, one function each."""

# ruff: noqa: F401 - chapters call all of these by the name of this package
from .charts import by_depth, compare_losses, curves, differences, plot_losses, strips
from .gmlp import learned_matrix, loss_in_band, written_out
from .head_to_head import by_length, growth, lottery, trade_offs, tuning_curves
from .hourglass import by_hand, cost_by_length, waist, who_sees_whom
from .maps import leak_maps
from .primer_ez import glimpses, worked_example
from .style import COLORS, GREY, MODELS, OTHERS, WIDTH, looks
from .transformer import clock_hands, growing, loss_and_landmarks, reading
from .variations import arrows, knobs, shares, waves

__all__ = [name for name in dir() if not name.startswith("_")]
