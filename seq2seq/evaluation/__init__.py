"""Strings in, scores out: sacreBLEU's numbers with the signatures that make them comparable."""
