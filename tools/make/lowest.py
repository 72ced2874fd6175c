"""Print the lowest version of each dependency that the package says it works with, as constraints for pip."""

import tomllib
from pathlib import Path

with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
    print("\n".join(bound.replace(">=", "==") for bound in tomllib.load(file)["project"]["dependencies"]))
