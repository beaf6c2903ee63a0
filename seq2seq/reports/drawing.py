"""What a drawing may be written as."""

from pathlib import Path

from seq2seq.errors import ConfigError


def check_drawing(setting: str, path: Path) -> None:
    """A page of HTML always can be drawn, a PNG where matplotlib is installed."""
    if path.suffix not in (".html", ".png"):
        raise ConfigError(f"{setting} {path} must end in .html or .png.")
    if path.suffix == ".png":
        try:
            import seq2seq.reports.picture  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                f"{path} needs the package matplotlib ({error}): "
                f"pip install 'seq2seq-lightning[plots]'; a page of HTML does not."
            ) from None
