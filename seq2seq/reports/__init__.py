"""Numbers in, pages for people out."""
