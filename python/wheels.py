#!/usr/bin/env python3
"""Builds the wheels of all platforms, or of those named, into a folder: python wheels.py [-o dist] [PLATFORM...].

It needs Go, and from PyPI ziglang (a C compiler and linker for all platforms) and hatchling, with the versions and
checksums in build.txt and Python 3.11 or later:

    pip install --require-hashes -r python/build.txt

The same revision gives the same bytes with the same versions of Go, zig and hatchling. For this machine alone,
pip install ./python builds the library with the C compiler at hand.
"""

import argparse
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE / "build"

FILES = {"win32": "randfeat.dll", "darwin": "librandfeat.dylib"}  # by sys.platform; others: librandfeat.so

# name: GOOS, GOARCH, zig's target, tag of the wheel, file of the library
PLATFORMS = {
    "manylinux-x86_64": ("linux", "amd64", "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64",
                         "librandfeat.so"),
    "manylinux-aarch64": ("linux", "arm64", "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64",
                          "librandfeat.so"),
    "macos-arm64": ("darwin", "arm64", "aarch64-macos.12.0", "macosx_12_0_arm64", "librandfeat.dylib"),
    "macos-x86_64": ("darwin", "amd64", "x86_64-macos.12.0", "macosx_12_0_x86_64", "librandfeat.dylib"),
    "windows-amd64": ("windows", "amd64", "x86_64-windows-gnu", "win_amd64", "randfeat.dll"),
}  # fmt: skip

# Packages that plan rather than compute: compiled without inlining they are smaller and not noticeably slower.
MODULE = "github.com/randfeat/randfeat/"
COLD = ["machine/tabular", "advise", "internal/calc", "theory/...", "attention/choose", "family", "coupling",
        "internal/plan", "internal/figure", "data"]  # fmt: skip

# The symbols of macOS that Go's runtime links to. zig has neither frameworks nor libresolv.
LIBRARIES = {
    "libresolv.9.dylib": ["_res_9_ninit", "_res_9_nclose", "_res_9_nsearch", "_res_9_dn_expand"],
}
FRAMEWORKS = {
    "CoreFoundation": ["_CFRelease", "_CFStringCreateCopy", "_CFStringGetCString", "_kCFAllocatorDefault",
                       "_CFBundleGetMainBundle", "_CFBundleCopyResourceURL", "_CFURLGetFileSystemRepresentation",
                       "_CFURLCreateCopyDeletingLastPathComponent", "_CFStringCreateWithCString"],
    "Security": [],
}  # fmt: skip


def zig_cc(name: str, target: str) -> str:
    """Write a script that is a C compiler for a target. Go's cache identifies a compiler by its path and version."""
    BUILD.mkdir(exist_ok=True)
    cc = BUILD / f"cc-{name}"
    options = f"-target {target}"
    if "macos" in name:
        frameworks = stubs()
        options += f" -F{frameworks} -L{frameworks} -Wno-overriding-deployment-version"
    cc.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc {options} "$@"\n')
    cc.chmod(0o755)
    return str(cc)


def stubs() -> pathlib.Path:
    """Write stub descriptions of the macOS libraries, which is all that a linker needs, and return their folder."""
    folder = BUILD / "frameworks"
    found = {folder / f"{n}.framework" / f"{n}.tbd": (f"/System/Library/Frameworks/{n}.framework/Versions/A/{n}", s)
             for n, s in FRAMEWORKS.items()}  # fmt: skip
    found |= {folder / (n.split(".")[0] + ".tbd"): (f"/usr/lib/{n}", s) for n, s in LIBRARIES.items()}
    for path, (name, symbols) in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "--- !tapi-tbd\ntbd-version: 4\ntargets: [ x86_64-macos, arm64-macos ]\n"
            f"install-name: {name}\n"
            "exports:\n  - targets: [ x86_64-macos, arm64-macos ]\n"
            f"    symbols: [ {', '.join(symbols)} ]\n...\n"
        )
    return folder


def library(out: pathlib.Path, system: str, env: dict) -> None:
    """Build the native library with Go."""
    out.parent.mkdir(parents=True, exist_ok=True)
    flags = "-s -w -buildid="
    if system == "linux":  # the build id would depend on paths
        flags += " -extldflags '-Wl,-s -Wl,--build-id=none -Wl,-z,nodelete'"
    subprocess.run(
        ["go", "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-ldflags", flags]
        + [f"-gcflags={MODULE}{p}=-l" for p in COLD]
        + ["-o", str(out), "."],
        cwd=HERE / "cabi", env={**os.environ, "CGO_ENABLED": "1", "GOFLAGS": "", **env}, check=True,
    )  # fmt: skip


def missing() -> str | None:
    """The first tool that is missing, and how to get it."""
    if not shutil.which("go"):
        return "go is missing: install Go 1.26 or later from https://go.dev/dl"
    for module in ("ziglang", "hatchling"):
        if not importlib.util.find_spec(module):
            return f"{module} is missing: {sys.executable} -m pip install --require-hashes -r python/build.txt"
    return None


def wheel(name: str, dist: pathlib.Path) -> None:
    goos, goarch, target, tag, filename = PLATFORMS[name]
    lib = BUILD / name / filename
    library(lib, goos, {"GOOS": goos, "GOARCH": goarch, "CC": zig_cc(name, target)})
    env = {**os.environ, "RANDFEAT_LIB": str(lib), "RANDFEAT_TAG": tag, "SOURCE_DATE_EPOCH": "1735689600"}
    with tempfile.TemporaryDirectory(dir=dist) as folder:  # the wheel gets its name when it is complete
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=HERE, env=env, check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        (made,) = pathlib.Path(folder).glob("*.whl")
        size = made.stat().st_size
        made.replace(dist / made.name)
    print(f"{made.name}: {size / 1e6:.2f} MB, library {lib.stat().st_size / 1e6:.1f} MB", flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description="Build the wheels of randfeat.")
    p.add_argument("-o", "--out", type=pathlib.Path, default=HERE / "dist", help="folder to write to")
    p.add_argument("platforms", nargs="*", metavar="PLATFORM", help="all if none of " + ", ".join(PLATFORMS))
    o = p.parse_args()
    unknown = [n for n in o.platforms if n not in PLATFORMS]
    if unknown:
        p.error(f"unknown platforms {unknown}, want some of {list(PLATFORMS)}")
    if problem := missing():
        sys.exit(f"wheels.py: {problem}")
    o.out.mkdir(parents=True, exist_ok=True)
    for name in o.platforms or PLATFORMS:
        try:
            wheel(name, o.out.resolve())
        except subprocess.CalledProcessError as err:
            sys.exit(f"wheels.py: {name}: {' '.join(map(str, err.cmd[:4]))} … failed; its messages are above")


if __name__ == "__main__":
    main()
