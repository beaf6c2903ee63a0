"""What every picture needs: letters, and to become a PNG."""

import io
from collections.abc import Iterable
from typing import NamedTuple

from matplotlib import font_manager
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure

from seq2seq.errors import ConfigError

DPI = 150
MOST_PIXELS = 2**16 - 1
"""matplotlib draws no longer side."""


def png(figure: Figure) -> bytes:
    """The picture; ConfigError if it would be too large."""
    width, height = figure.get_size_inches() * DPI
    if max(width, height) > MOST_PIXELS:
        raise ConfigError(
            f"a PNG would have {width:.0f} x {height:.0f} pixels; {MOST_PIXELS} is the most on "
            f"a side: draw fewer or shorter sentences, or write HTML."
        )
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=DPI)  # by Agg
    return content.getvalue()


class Typeface(NamedTuple):
    """Installed fonts for some texts."""

    fonts: list[str]
    """Names; each is asked for what those before it lack."""
    missing: frozenset[str]
    """Characters that none has."""

    def spelled(self, text: str) -> str:
        """With a code point, [U+4ECA], for what would be an empty box."""
        return "".join(f"[U+{ord(c):04X}]" if c in self.missing else c for c in text)

    def width(self, text: str) -> float:
        """In multiples of the letters' size."""
        style = font_manager.FontProperties(family=self.fonts, size=100)  # 100 pixels at 72 dpi
        width, *_ = RendererAgg(1, 1, 72).get_text_width_height_descent(text, style, False)
        return float(width) / 100


def typeface_for(texts: Iterable[str]) -> Typeface:
    """DejaVu Sans, which matplotlib brings, then whatever has most of what it lacks."""
    fonts, missing = ["DejaVu Sans"], frozenset("".join(texts))
    missing -= _those_in(font_manager.findfont(fonts[0]), missing)
    others = {
        font.name: _those_in(font.fname, missing)
        for font in (font_manager.fontManager.ttflist if missing else [])
        if font.style == "normal" and "Last Resort" not in font.name  # that has a box for each
    }
    for name, has in sorted(others.items(), key=lambda each: len(each[1]), reverse=True):
        if has & missing:
            fonts.append(name)
            missing -= has
    return Typeface(fonts, missing)


def _those_in(path: str, characters: frozenset[str]) -> frozenset[str]:
    try:
        known = font_manager.get_font(path).get_charmap()
    except (OSError, RuntimeError):  # a damaged font
        return frozenset()
    return frozenset(c for c in characters if ord(c) in known)
