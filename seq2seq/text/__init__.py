"""Strings only, no torch: cleaning and subwords."""
