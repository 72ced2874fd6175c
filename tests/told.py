"""The chapters that are told idea first, whose prose is measured: each is added when its text is written so."""

TOLD: list[str] = ["02-primer-ez"]
