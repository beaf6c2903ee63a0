"""The skeleton of every page: self-contained, light and dark, readable without JavaScript."""

from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: 0 90 160; --faint: #595959; --line: #ccc }
@media (prefers-color-scheme: dark) {
  :root { --ink: 100 180 240; --faint: #a8a8a8; --line: #444 }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
"""


def page(title: str, body: str, style: str) -> str:
    """`body` is HTML that is also well-formed XML, `title` is text; `style` comes after STYLE."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width" />
<title>{escape(title)}</title>
<style>{STYLE}{style}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""
