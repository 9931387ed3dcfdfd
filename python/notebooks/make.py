#!/usr/bin/env python3
"""Writes the notebooks from the scripts beside this one: python make.py. Cells begin with '# %%'; text cells with '# %% [markdown]'."""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def cells(text):
    for i, part in enumerate(text.split("# %%")[1:]):
        head, _, body = part.partition("\n")
        body = body.strip("\n")
        if "[markdown]" in head:
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.split("\n")]
            yield {"cell_type": "markdown", "id": f"c{i}", "metadata": {}, "source": "\n".join(lines)}
        else:
            yield {"cell_type": "code", "id": f"c{i}", "metadata": {}, "execution_count": None, "outputs": [],
                   "source": body}  # fmt: skip


def notebook(text):
    return {
        "cells": list(cells(text)),
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                     "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }  # fmt: skip


if __name__ == "__main__":
    for script in sorted(HERE.glob("[0-9]*.py")):
        path = script.with_suffix(".ipynb")
        path.write_text(json.dumps(notebook(script.read_text()), indent=1, ensure_ascii=False) + "\n")
        print(path.name)
