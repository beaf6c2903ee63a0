"""The floors of the house hold: who may import whom is written here, and read from the sources.

A new folder or file of seq2seq/, or a new library, needs its line in one of the two tables.
"""

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import seq2seq.cli

ROOT = Path(__file__).parents[1]

BASE = "errors config"
MODEL = (
    f"{BASE} text nn provenance model_card model_folder model_facts engine sentence translation "
    "second_look translator data decoding"
)

FLOORS = {
    # part of seq2seq  the other parts that it may import
    "errors":       "",
    "allocator":    "",
    "memory":       "",
    "cores":        "",
    "process":      "allocator cores",
    "config":       "errors",
    "text":         BASE,
    "nn":           BASE,
    "evaluation":   f"{BASE} text",
    "reports":      BASE,
    "decoding":     BASE,
    "versioned":    "errors",
    "provenance":   "errors versioned",
    "software":     "",
    "data":         f"{BASE} text provenance",
    "model_card":   "config provenance",
    "model_folder": f"{BASE} text nn versioned provenance model_card memory",
    "model_facts":  f"{BASE} provenance model_card model_folder",
    "engine":       f"{BASE} nn data decoding",
    "sentence":     "errors",
    "pipeline":     f"{BASE} data decoding memory",
    "workers":      f"{BASE} data decoding engine allocator",
    "noisy_channel": f"{BASE} text data decoding engine",
    "translation":  "",
    "second_look":  f"{BASE} text data decoding engine sentence translation pipeline memory",
    "translator":   f"{BASE} text nn data decoding model_folder engine sentence translation "
                    "second_look pipeline workers noisy_channel",
    "verification": "sentence translation translator",
    "distillation": "text data decoding translation translator",
    "training":     f"{MODEL} evaluation allocator memory cores software",
    "interop":      f"{MODEL} versioned memory",
    "apps":         f"{MODEL} evaluation training interop reports process cores "
                    "verification distillation workers software",
    "cli":          "errors allocator",  # apps by name, when their verb is called
    "__main__":     "cli",
    "__init__":     "errors config nn translator",  # the public names, for type checkers
}  # fmt: skip

LIBRARIES = {
    # library            the only places that may import it
    "torch":             "nn data decoding memory cores model_folder engine noisy_channel "
                         "second_look pipeline workers translator training interop apps.train "
                         "evaluation.corpus_bleu",
    "torchmetrics":      "evaluation.corpus_bleu training",
    "pytorch_lightning": "training apps.train apps.train_callbacks apps.train_parser "
                         "apps.train_settings",
    "jsonargparse":      "apps.train apps.train_parser apps.train_settings",
    "sentencepiece":     "text",
    "google":            "interop.onnx",
    "sacrebleu":         "evaluation",
    "safetensors":       "model_folder model_facts interop.huggingface",
    "yaml":              "model_card interop.joeynmt_source apps.trials",
    "tqdm":              "apps",
    "zstandard":         "data.lines",
    "numpy":             "data interop.files interop.onnx_graph evaluation.significance "
                         "evaluation.pairwise",
    "filelock":          "data.cache",
    "lxml":              "data.formats",
    "polib":             "data.formats",
    "datasets":          "data.huggingface",
    "ctranslate2":       "interop",
    "matplotlib":        "reports",
    "transformers":      "interop",
    "onnx":              "interop",
    "onnxruntime":       "interop",
    "triton":            "nn.joined nn.joined_kernels",
}  # fmt: skip


def imports_of(source: str, name: str) -> Iterator[str]:
    """Modules that a module imports anywhere, in functions and for type checkers too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}, line {node.lineno}: import by the full name"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def read_package(folder: Path) -> dict[str, set[str]]:
    """Module name -> what it imports; imported names of a module count as the module."""
    sources = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if len(parts) > 2 and parts[-1] == "__init__" else parts)
        sources[name] = path.read_text(encoding="utf-8")
    graph = {}
    for name, source in sources.items():
        graph[name] = {
            module_of(imported, sources.keys(), folder.name)
            for imported in imports_of(source, name)
        }
    return graph


def module_of(imported: str, modules: Collection[str], package: str) -> str:
    """The module that `imported`, a module or a name in one, comes from."""
    if imported.split(".")[0] != package:
        return imported.split(".")[0]
    name = imported
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or f"{package}.__init__"


def violations(
    graph: Mapping[str, set[str]], floors: Mapping[str, str], libraries: Mapping[str, str]
) -> list[str]:
    """One line for each import that the tables do not allow, and for a cycle."""
    package = next(iter(graph)).split(".")[0]
    found = []
    for name, imports in graph.items():
        here = name.removeprefix(f"{package}.")
        part = here.split(".")[0]
        if part not in floors:
            found.append(f"{here} is on no floor")
            continue
        for imported in sorted(imports):
            there = imported.removeprefix(f"{package}.")
            other = there.split(".")[0]
            if imported.startswith(f"{package}."):
                if other != part and other not in floors[part].split():
                    found.append(f"{here} imports {there}")
            elif other in libraries:
                homes = libraries[other].split()
                if not any(f"{here}.".startswith(f"{home}.") for home in homes):
                    found.append(f"{here} imports {other}")
            elif other not in sys.stdlib_module_names:
                found.append(f"{here} imports {other}, which no line of the table knows")
    inside = {name: {i for i in imports if i in graph} for name, imports in graph.items()}
    try:
        TopologicalSorter(inside).prepare()
    except CycleError as error:
        found.append("a cycle: " + " <- ".join(error.args[1]))
    return found


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Everything that importing `start` can bring in, libraries too."""
    seen, waiting = set[str](), [start]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(graph.get(name, ()))
    return seen


def test_every_import_is_allowed_by_the_tables_and_there_is_no_cycle() -> None:
    assert violations(read_package(ROOT / "seq2seq"), FLOORS, LIBRARIES) == []


def test_every_line_of_the_tables_is_about_something_that_is_there() -> None:
    graph = read_package(ROOT / "seq2seq")
    parts = {name.split(".")[1] for name in graph}
    assert parts == FLOORS.keys()
    assert set(" ".join(FLOORS.values()).split()) <= parts
    assert LIBRARIES.keys() <= set.union(*graph.values())


def test_translating_needs_neither_lightning_nor_sacrebleu() -> None:
    graph = read_package(ROOT / "seq2seq")
    for start in ("seq2seq.translator", "seq2seq.apps.translate"):
        brought = reachable(graph, start)
        assert "torch" in brought
        assert not brought & {"pytorch_lightning", "torchmetrics", "sacrebleu"}


def planted(folder: Path, **sources: str) -> list[str]:
    """What the checker says of a package of these modules; `a__b` is a/b.py."""
    for name, source in sources.items():
        path = folder / "seq2seq" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return violations(read_package(folder / "seq2seq"), FLOORS, LIBRARIES)


@pytest.mark.parametrize(
    ("module", "source", "said"),
    [
        ("text__x", "import torch", "text.x imports torch"),
        ("text__x", "def f():\n    from torch import nn", "text.x imports torch"),
        ("text__x", "import seq2seq.nn.y as y", "text.x imports nn.y"),
        ("text__x", "from seq2seq.nn import y", "text.x imports nn.y"),
        ("text__x", "from seq2seq.nn.y import Name", "text.x imports nn.y"),
        (
            "decoding__x",
            "if 1:\n    from seq2seq import translator",
            "decoding.x imports translator",
        ),
        ("nn__x", "from seq2seq import Translator", "nn.x imports __init__"),
        ("evaluation__x", "import torch", "evaluation.x imports torch"),
        ("apps__x", "import pytorch_lightning.callbacks", "apps.x imports pytorch_lightning"),
        ("data__x", "import scipy", "data.x imports scipy, which no line of the table knows"),
        ("tools__x", "import re", "tools.x is on no floor"),
    ],
)
def test_the_checker_sees_a_planted_import(
    tmp_path: Path, module: str, source: str, said: str
) -> None:
    others = {"__init__": "", "nn__y": "import torch", "translator": "import torch"}
    assert planted(tmp_path, **others, **{module: source}) == [said]


def test_the_checker_allows_what_the_tables_allow(tmp_path: Path) -> None:
    fine = {
        "__init__": "from seq2seq.translator import Translator",
        "translator": "import torch\nfrom seq2seq.nn import x",
        "nn__x": "from seq2seq.nn.y import Name\nimport os.path",
        "nn__y": "from torch import nn",
        "evaluation__corpus_bleu": "import torch",
    }
    assert planted(tmp_path, **fine) == []


def test_the_checker_sees_a_planted_cycle_even_inside_functions(tmp_path: Path) -> None:
    cycle = {
        "nn__x": "from seq2seq.nn import y",
        "nn__y": "from seq2seq.nn.z import Name",
        "nn__z": "def f():\n    import seq2seq.nn.x",
    }
    (said,) = planted(tmp_path, **cycle)
    assert said.startswith("a cycle: ")
    assert all(name in said for name in ("nn.x", "nn.y", "nn.z"))


def test_the_checker_refuses_relative_imports(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"nn\.x, line 2: import by the full name"):
        planted(tmp_path, nn__x="import re\nfrom .y import Name")


@pytest.mark.parametrize(
    "statement",
    ["import seq2seq", "import runpy; runpy.run_module('seq2seq', run_name='__main__')"],
    ids=["import", "help"],
)
def test_importing_the_package_and_asking_for_help_do_not_import_torch(statement: str) -> None:
    code = f"""
import atexit, sys
atexit.register(lambda: print("torch" in sys.modules, file=sys.stderr))
sys.argv = ["seq2seq", "--help"]
{statement}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr == "False\n"
    assert done.returncode == 0
    assert ("usage: seq2seq" in done.stdout) == ("runpy" in statement)


def test_the_init_file_of_a_folder_is_its_docstring_and_nothing_else() -> None:
    folders = {path.parent for path in (ROOT / "seq2seq").rglob("*.py")} - {ROOT / "seq2seq"}
    assert folders
    for folder in folders:
        module = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
        assert ast.get_docstring(module), f"{folder.name} has no docstring"
        assert len(module.body) == 1, f"the __init__ of {folder.name} holds code"


def test_every_module_says_what_it_is() -> None:
    for path in (ROOT / "seq2seq").rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_a_script_is_a_few_lines_that_call_a_command_or_needs_nothing_of_the_package() -> None:
    commands = {*seq2seq.cli.VERBS, *seq2seq.cli.LIGHTNING_VERBS, "train"}
    for path in (ROOT / "scripts").glob("*.py"):
        source = path.read_text(encoding="utf-8")
        used = {name for name in imports_of(source, path.name) if name.startswith("seq2seq")}
        if path.stem in commands:
            assert used == {"seq2seq.cli.main"}, path.name
            assert len(ast.parse(source).body) <= 4, path.name
        elif not path.stem.startswith("bench_"):
            assert not used, f"{path.name} should be a command: a file in seq2seq/apps/"
