WRONG: dict[str, list[tuple[str, str]]] = {}
