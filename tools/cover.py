"""Draw the picture of the landing page, book/static/cover.png, from the package and the recorded runs."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

from efficient_transformers import CausalDepthwiseConv, figures, leak_map, study
from efficient_transformers.figures.maps import PAST

CODE = """kernel = self.weight.flip(2).expand(H, K, W)
x = F.pad(x, (0, 0, W - 1, 0))
y = F.conv2d(x.mT[:, :, None], kernel)"""


@figures.styled
def main() -> None:
    figure, axes = plt.subplot_mosaic(
        [["equation", "equation"], ["map", "losses"]],
        figsize=(figures.WIDTH, 5.2),
        layout="constrained",
        height_ratios=(1, 1.35),
        width_ratios=(1, 1.25),
    )
    titles = {"equation": "an equation and its code", "map": "what it depends on", "losses": "what it buys"}
    for name, title in titles.items():
        axes[name].set_title(title, fontsize=12)
    top = axes["equation"]
    top.text(0.5, 0.72, r"$y_{t,c} = \sum_{j=0}^{W-1} w_{c,j}\; x_{t-j,\,c}$", fontsize=19, ha="center", va="center")
    top.text(
        0.5,
        0.2,
        CODE,
        fontsize=11,
        family="monospace",
        ha="center",
        va="center",
        linespacing=1.5,
        multialignment="left",
    )
    top.axis("off")
    seen = (leak_map(CausalDepthwiseConv(8, 2), 12) > 0).int()
    axes["map"].imshow(seen, cmap=ListedColormap(["#FFFFFF00", PAST]))
    figures.bare_grid(axes["map"], 12, 12)
    axes["map"].set(xlabel="input position", ylabel="output position")
    groups = study.by_label(study.load_study("learning-rate"))
    runs = {name: study.metrics_of(groups[f"{name} 0.003"][0]) for name in ("transformer", "primer-ez")}
    figures.plot_losses(runs, axes["losses"], target=runs["transformer"][-1]["validation_loss"])
    axes["losses"].set_ylim(top=2.6)
    path = Path(__file__).parents[1] / "book" / "static" / "cover.png"
    figure.savefig(path, dpi=200, metadata={"Software": None})


if __name__ == "__main__":
    main()
