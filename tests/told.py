"""The chapters that are told idea first, whose prose is measured: each is added when its text is written so."""

TOLD = [
    "01-transformer",
    "02-primer-ez",
    "03-primer-variations",
    "04-hourglass",
    "05-gmlp",
    "06-head-to-head",
    "07-your-own",
]
