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
