"""Draw the picture of the landing page, book/static/cover.png, from the package and the recorded runs."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

from efficient_transformers import CausalDepthwiseConv, figures, leak_map, study

CODE = """kernel = self.weight.flip(2).expand(H, K, W)
x = F.pad(x, (0, 0, W - 1, 0))
y = F.conv2d(x.mT[:, :, None], kernel)"""


@figures.styled
def main() -> None:
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.1), layout="constrained", width_ratios=(4, 2.6, 4))
    for ax, title in zip(axes, ("an equation and its code", "what it depends on", "what it buys"), strict=True):
        ax.set_title(title, fontsize=12)
    axes[0].text(0.5, 0.7, r"$y_{t,c} = \sum_{j=0}^{W-1} w_{c,j}\; x_{t-j,\,c}$", fontsize=17, ha="center", va="center")
    axes[0].text(0.5, 0.28, CODE, fontsize=8.5, family="monospace", ha="center", va="center", linespacing=1.7)
    axes[0].axis("off")
    seen = (leak_map(CausalDepthwiseConv(8, 2), 12) > 0).int()
    axes[1].imshow(seen, cmap=ListedColormap(["white", "#4C78A8"]))
    figures.bare_grid(axes[1], 12, 12)
    axes[1].set(xlabel="input position", ylabel="output position")
    groups = study.by_label(study.load_study("learning-rate"))
    runs = {name: study.metrics_of(groups[f"{name} 0.003"][0]) for name in ("transformer", "primer-ez")}
    figures.plot_losses(runs, axes[2], target=runs["transformer"][-1]["validation_loss"])
    axes[2].set_ylim(top=2.6)
    figure.savefig(Path(__file__).parents[1] / "book" / "static" / "cover.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
