"""Style and contracts as tests: sizes, left-overs, machine paths, one place that reads the environment."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GENERATED = "libs/ddz/"
MODULE_LINES = 400
FUNCTION_LINES = 60
MAIN_LINES = 80
MEDIAN_LINES = 150
TEXT = {".py", ".sql", ".yaml", ".yml", ".toml", ".md", ".sh", ".js", ".css", ".html", ".proto", ".lock", ".json", ""}


def tracked(*suffixes: str) -> Iterator[Path]:
    """Files that git tracks or would track, generated code left out."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n"):
        path = ROOT / name
        if name and not name.startswith(GENERATED) and path.suffix in suffixes and path.is_file():
            yield path


def product_modules() -> list[Path]:
    return [
        path for path in tracked(".py") if path.relative_to(ROOT).parts[0] in {"libs", "services", "deploy", "proto"}
    ]


def lines_of(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def test_modules_are_small() -> None:
    sizes = {str(path.relative_to(ROOT)): lines_of(path) for path in product_modules()}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES} == {}
    assert statistics.median(sizes.values()) <= MEDIAN_LINES


def test_functions_are_small() -> None:
    large = {}
    for path in product_modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or node.lineno) - node.lineno + 1
                if size > FUNCTION_LINES:
                    large[f"{path.relative_to(ROOT)}:{node.name}"] = size
    assert large == {}


def test_each_main_only_wires() -> None:
    mains = list((ROOT / "services").glob("*/__main__.py"))
    assert {path.parent.name: lines_of(path) for path in mains if lines_of(path) >= MAIN_LINES} == {}


def test_services_read_the_environment_in_one_file() -> None:
    readers = {
        path.relative_to(ROOT).as_posix()
        for path in tracked(".py")
        if path.relative_to(ROOT).parts[0] == "services" and re.search(r"os\.(environ|getenv)", path.read_text())
    }
    readers.remove("services/__init__.py")  # writes what grpc reads
    assert {name for name in readers if not name.endswith("/__main__.py")} == set()


def test_modules_have_a_docstring() -> None:
    modules = product_modules()
    assert [str(path) for path in modules if ast.get_docstring(ast.parse(path.read_text())) is None] == []


def test_nothing_is_left_over() -> None:
    marks = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|NotImplemented" r"Error|place" r"holder)\b")
    hits = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked(".py", ".sql", ".proto", ".yaml", ".yml", ".sh", ".js")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert hits == []


def test_no_path_of_a_machine() -> None:
    marks = re.compile(r"(?<![\w.])/(?:root|work|home/\w+|Users/\w+)/")
    hits = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked(*TEXT)
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), 1)
        if marks.search(line) and path != Path(__file__)
    ]
    assert hits == []


@pytest.mark.parametrize(
    "name", ["requirements.lock", "deploy/containers/requirements.lock", "deploy/check/requirements.lock"]
)
def test_the_lock_names_no_index(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", text)
    assert all(
        "--hash=sha256:" in block for block in re.split(r"\n(?=[a-z0-9])", text) if re.match(r"[a-z0-9].*==", block)
    )
