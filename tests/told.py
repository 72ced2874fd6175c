"""The chapters that are told idea first: a chapter is added when its text is written so, and its prose is then measured."""

TOLD: list[str] = []
