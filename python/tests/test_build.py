"""Building the package from a checkout: pip install ./python and make wheels, with and without their tools."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent.parent

pytest.importorskip("hatchling")


def run(*command, tools=(), **env):
    """Run Python with a PATH that holds only some tools."""
    return subprocess.run(
        [sys.executable, *command], cwd=HERE, capture_output=True, text=True, timeout=900,
        env={**os.environ, "PATH": os.pathsep.join({os.path.dirname(t) for t in tools}), **env},
    )  # fmt: skip


def build(folder, **kwargs):
    return run("-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), **kwargs)


def test_install_without_go(tmp_path):
    got = build(tmp_path, tools=())
    said = (got.stdout + got.stderr).strip().splitlines()
    assert got.returncode == 1 and len(said) == 1 and "https://go.dev/dl" in said[0], said
    assert not list(tmp_path.iterdir())


def test_install_when_go_fails(tmp_path):
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\nexit 1\n")
    go.chmod(0o755)
    got = build(tmp_path / "dist", tools=[str(go)])
    assert got.returncode == 1 and "Go could not build the library" in got.stdout + got.stderr
    assert "Traceback" not in got.stderr and not list(tmp_path.glob("dist/*"))


@pytest.mark.skipif(not shutil.which("go") or not shutil.which("gcc"), reason="needs Go and a C compiler")
def test_install_with_go(tmp_path):
    got = build(tmp_path, PATH=os.environ["PATH"])
    assert got.returncode == 0, got.stderr
    (wheel,) = tmp_path.glob("randfeat-*-py3-none-*.whl")
    with zipfile.ZipFile(wheel) as z:
        z.extractall(tmp_path)
    code = "import randfeat; print(randfeat.Map({'kernel': 'gaussian', 'dim': 2, 'm': 4, 'family': 'trig'}).spec['m'])"
    got = run("-c", code, PYTHONPATH=str(tmp_path), RANDFEAT_LIBRARY="")
    assert got.stdout.strip() == "4", got.stderr


def test_wheels_name_a_missing_tool(tmp_path):
    got = run("wheels.py", "-o", str(tmp_path), "manylinux-x86_64")
    assert got.returncode == 1 and got.stderr.startswith("wheels.py: go is missing: ") and got.stderr.count("\n") == 1
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\nexit 1\n")
    go.chmod(0o755)
    got = run("wheels.py", "-o", str(tmp_path / "dist"), "manylinux-x86_64", tools=[str(go)])
    assert got.returncode == 1 and "Traceback" not in got.stderr and not list(tmp_path.glob("dist/*.whl"))
