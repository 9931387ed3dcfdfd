"""The notebooks run, and the examples of the docstrings."""

import ast
import doctest
import importlib
import json
import pathlib
import pkgutil

import pytest

import randfeat

NOTEBOOKS = sorted((pathlib.Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))


def run(path):
    """Runs the cells in order, as a notebook does: the last expression of a cell is shown."""
    space = {"__name__": "__main__"}
    for i, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{path.name}:{i}", "exec"), space)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"{path.name}:{i}", "eval"), space)
            if hasattr(value, "_repr_html_"):
                assert isinstance(value._repr_html_(), str)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(path):
    if "table" in path.name:
        pytest.importorskip("pandas")
    run(path)


def test_there_are_three():
    assert len(NOTEBOOKS) == 3


def test_notebooks_are_those_of_the_scripts():
    for path in NOTEBOOKS:
        space = {"__name__": "make", "__file__": str(path.parent / "make.py")}
        exec((path.parent / "make.py").read_text(), space)
        assert json.loads(path.read_text()) == space["notebook"](path.with_suffix(".py").read_text())


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(randfeat.__path__) if "lib" != m.name[:3]] + [""])
def test_examples(name):
    module = importlib.import_module(f"randfeat.{name}" if name else "randfeat")
    result = doctest.testmod(module)
    assert result.failed == 0
