"""The README.md of a model: Markdown below a YAML front matter, as the Hugging Face Hub expects it.

The card says what is known and leaves out the rest. The front matter follows the hub's
specification; what the hub refuses (a language with its region, a file as a dataset) is not in it.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from seq2seq.config import ModelConfig, SearchConfig
from seq2seq.provenance import Corpus, File, Hardware, Provenance

LIBRARY = "seq2seq-lightning"
METRICS = {"BLEU": "bleu", "chrF2": "chrf", "TER": "ter"}
"""The hub's names of scores."""
USAGE = """\
```python
from seq2seq import Translator

translator = Translator.load(".")
print(translator.translate(["A sentence."]))
```

On the command line: `seq2seq translate MODEL FILE`, MODEL being this folder.
"""


def model_card(
    config: ModelConfig,
    parameters: int,
    languages: tuple[str, str],
    provenance: Provenance,
    *,
    library: str = LIBRARY,
    usage: str = USAGE,
) -> str:
    """The card of a model with so many parameters; the languages are codes, or empty."""
    src, tgt = languages
    header = _front_matter([src, tgt], library, provenance)
    sections = [
        f"# Translation{f' from {src} to {tgt}' if src and tgt else ''}",
        f"A Transformer with {config.encoder_layers} + {config.decoder_layers} layers of width "
        f"{config.d_model} and {parameters:,} parameters.",
        usage.strip(),
        *_scores(provenance.get("data", [])),
        *_data(provenance, "## Data"),
        *_making(provenance),
        *_ancestors(provenance),
        "## Architecture",
        f"```yaml\n{_yaml(dataclasses.asdict(config))}```",
        *_again(provenance),
    ]
    return f"---\n{_yaml(header)}---\n\n" + "\n\n".join(sections) + "\n"


def license_in(card: Path) -> str | None:
    """The licence that a model card names; None where it names none, or where there is no card."""
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    named = front_matter(text).get("license")
    return named if isinstance(named, str) else None


def front_matter(card: str) -> dict[str, Any]:
    """What stands between the first two lines of dashes; empty if it is no YAML mapping."""
    found = re.match(r"---\n(.*?\n)---\s*\n", card, re.DOTALL)
    try:
        content = yaml.safe_load(found[1]) if found else None
    except (yaml.YAMLError, ValueError, RecursionError):
        content = None
    return content if isinstance(content, dict) else {}


def _front_matter(languages: Sequence[str], library: str, provenance: Provenance) -> dict[str, Any]:
    data = provenance.get("data", [])
    codes = [code for each in languages if (code := re.split("[-_]", each)[0].lower())]
    scored = [corpus for corpus in data if corpus.get("scores")]
    metrics = [METRICS[s["name"]] for c in scored for s in c["scores"] if s["name"] in METRICS]
    header: dict[str, Any] = {
        "language": [c for c in dict.fromkeys(codes) if re.fullmatch("[a-z]{2,3}", c)],
        "license": provenance.get("license"),
        "library_name": library,
        "pipeline_tag": "translation",
        "datasets": list(dict.fromkeys(filter(None, map(_hub_name, data)))),
        "metrics": list(dict.fromkeys(metrics)),
        "model-index": [_model_index(languages, scored, provenance)] if scored else [],
    }
    return {key: value for key, value in header.items() if value}


def _model_index(
    languages: Sequence[str], scored: Sequence[Corpus], provenance: Provenance
) -> dict[str, Any]:
    run = Path(str(provenance.get("config", {}).get("run", ""))).name
    return {
        "name": run or "-".join(["translation", *filter(None, languages)]),
        "results": [
            {
                "task": {"type": "translation", "name": "Translation"},
                "dataset": _dataset(corpus),
                "metrics": [
                    {
                        "type": METRICS.get(score["name"], score["name"].lower()),
                        "value": round(score["value"], 2),
                        "name": score["name"],
                        "args": {"signature": score["signature"]},
                    }
                    for score in corpus["scores"]
                ],
            }
            for corpus in scored
        ],
    }


def _dataset(corpus: Corpus) -> dict[str, str]:
    """The type is a name on the hub, or what could be one."""
    name = corpus.get("name", corpus["role"])
    _, _, configuration = corpus.get("dataset", "").partition(":")
    found = {
        "type": _hub_name(corpus) or re.sub(r"[^\w.-]+", "-", name),
        "name": name,
        "config": configuration,
        "split": corpus.get("split", corpus["role"]),
    }
    return {key: value for key, value in found.items() if value}


def _hub_name(corpus: Corpus) -> str:
    return corpus.get("dataset", "").partition(":")[0]


def _scores(data: Sequence[Corpus]) -> Iterator[str]:
    lines = []
    for corpus in data:
        if scores := corpus.get("scores"):
            search = "".join(f", {each}" for each in _search(corpus.get("search", {})))
            lines.append(f"- {_title(corpus)} ({corpus['pairs']:,} sentences{search})")
            lines += [f"  - {s['name']} {s['value']:.2f}, `{s['signature']}`" for s in scores]
    if lines:
        yield "## Scores"
        yield "\n".join(lines)


def _search(settings: dict[str, Any]) -> Iterator[str]:
    """The width of the beam, and what differs from the default."""
    usual = dataclasses.asdict(SearchConfig())
    for name, value in settings.items():
        if name == "beam" or value != usual.get(name):
            yield f"{name} {value}"


def _data(provenance: Provenance, title: str) -> Iterator[str]:
    if data := provenance.get("data"):
        yield title
        yield "\n".join(line for corpus in data for line in _corpus(corpus))
    yield from quoted(provenance.get("terms", {}))


def quoted(terms: Mapping[str, str]) -> Iterator[str]:
    """Paragraphs: what each of these files says, word for word."""
    for path, text in terms.items():
        yield f"`{path}` says:"
        yield "\n".join(f"> {line}".rstrip() for line in text.strip().split("\n"))


def _corpus(corpus: Corpus) -> Iterator[str]:
    dataset = corpus.get("dataset") or corpus.get("dataset_folder")
    parts = [
        f"- {_title(corpus)}: {corpus['pairs']:,} pairs",
        f"Hugging Face dataset `{dataset}`" if dataset else "",
        f"split `{corpus['split']}`" if "split" in corpus else "",
        f"fingerprint `{corpus['fingerprint']}`" if "fingerprint" in corpus else "",
    ]
    yield ", ".join(filter(None, parts))
    yield from (f"  - {_file(file)}" for file in corpus["files"])


def _file(file: File) -> str:
    lines = f"{file['lines']:,} lines, " if "lines" in file else ""
    return f"`{file['path']}`: {lines}SHA-256 `{file['sha256']}`"


def _title(corpus: Corpus) -> str:
    return f"{corpus['role']} {corpus.get('name', '')}".strip()


def _making(provenance: Provenance) -> Iterator[str]:
    lines = []
    if parent := provenance.get("parent"):
        verb = "began as" if "training" in provenance else "are"
        lines.append(f"- The weights {verb} those of `{parent['path']}` ({parent['format']}).")
        lines += [f"  - {_file(file)}" for file in parent["files"]]
    if weights := provenance.get("weights"):
        steps = f" ({_steps(weights['steps'])})" if weights["steps"] else ""
        lines.append(f"- Weights: {weights['kind']}{steps}.")
        lines += [f"  - `{path}`" for path in weights.get("files", [])]
    if training := provenance.get("training"):
        time = duration(training["seconds"])
        lines.append(f"- Training: {training['steps']:,} steps, {time}.")
        lines += [f"- Hardware: {_hardware(each)}." for each in training["hardware"]]
        for name, values in training.get("changed", {}).items():
            lines.append(f"- Before it was stopped and went on, `{name}` was {values}.")
    if software := provenance.get("software"):
        versions = ", ".join(f"{name} {version}" for name, version in software.items())
        lines.append(f"- Software: {versions}.")
    if lines:
        yield "## How it was made"
        yield "\n".join(lines)


def _steps(steps: Sequence[int]) -> str:
    return f"step{'s' * (len(steps) > 1)} {', '.join(f'{step:,}' for step in steps)}"


def _hardware(found: Hardware) -> str:
    processes = f"{found['processes']} processes" if found["processes"] > 1 else ""
    count = found.get("threads", 0)
    threads = f"{count} thread{'s' * (count > 1)}" if count else ""
    attention = f"{found['attention']} attention"
    return ", ".join(
        filter(None, [found["device"], processes, threads, found["precision"], attention])
    )


def duration(seconds: float) -> str:
    """In its two largest units: "1 h 03 min", "2 min 05 s", "7 s"."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _ancestors(provenance: Provenance) -> Iterator[str]:
    """What the models were trained on that this one began as, the nearest first."""
    while parent := provenance.get("parent"):
        provenance = parent.get("provenance", Provenance())
        yield from _data(provenance, f"## Data of `{parent['path']}`")


def _again(provenance: Provenance) -> Iterator[str]:
    commands, config = provenance.get("commands"), provenance.get("config")
    if commands:
        yield "## Make it again"
        yield "```bash\n" + "".join(f"{command}\n" for command in commands) + "```"
    if config:
        yield "<details><summary><code>config.yaml</code></summary>"
        yield f"```yaml\n{_yaml(config)}```"
        yield "</details>"


def _yaml(content: dict[str, Any]) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
