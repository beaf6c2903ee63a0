"""Reports become files."""

from pathlib import Path

from seq2seq.errors import ConfigError


def write(setting: str, path: Path, content: str | bytes) -> None:
    """ConfigError names the setting, as typed, whose file cannot be written."""
    content = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{setting} {path} cannot be written: {error.strerror}.") from None


def check_folder(setting: str, path: Path) -> None:
    """ConfigError where the folder of a file to write is not there: before the work, not after."""
    if not path.parent.is_dir():
        raise ConfigError(f"{setting} {path} cannot be written: {path.parent} is no folder.")


def check_output(setting: str, path: Path) -> None:
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
