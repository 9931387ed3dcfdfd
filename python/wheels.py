#!/usr/bin/env python3
"""Builds the wheels of all platforms, or of those named, into dist/: python wheels.py [manylinux-x86_64 ...].

It needs Go, and from PyPI ziglang (a C compiler and linker for all platforms) and hatchling:

    pip install ziglang hatchling

The same revision gives the same bytes with the same versions of Go, zig and hatchling.
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD, DIST = HERE / "build", HERE / "dist"

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

# What Go's runtime wants of macOS, for the linker: zig has no frameworks.
FRAMEWORKS = {
    "CoreFoundation": ["_CFRelease", "_CFStringCreateCopy", "_CFStringGetCString", "_kCFAllocatorDefault",
                       "_CFBundleGetMainBundle", "_CFBundleCopyResourceURL", "_CFURLGetFileSystemRepresentation",
                       "_CFURLCreateCopyDeletingLastPathComponent", "_CFStringCreateWithCString"],
    "Security": [],
}  # fmt: skip


def zig_cc(name: str, target: str) -> str:
    """A script that is a C compiler for a target. Go's cache knows a compiler by its path and its version."""
    cc = BUILD / f"cc-{name}"
    options = f"-target {target}"
    if "macos" in name:
        frameworks = stubs()
        options += f" -F{frameworks} -Wno-overriding-deployment-version"
    cc.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc {options} "$@"\n')
    cc.chmod(0o755)
    return str(cc)


def stubs() -> pathlib.Path:
    folder = BUILD / "frameworks"
    for name, symbols in FRAMEWORKS.items():
        path = folder / f"{name}.framework"
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{name}.tbd").write_text(
            "--- !tapi-tbd\ntbd-version: 4\ntargets: [ x86_64-macos, arm64-macos ]\n"
            f"install-name: /System/Library/Frameworks/{name}.framework/Versions/A/{name}\n"
            "exports:\n  - targets: [ x86_64-macos, arm64-macos ]\n"
            f"    symbols: [ {', '.join(symbols)} ]\n...\n"
        )
    return folder


def library(name: str) -> pathlib.Path:
    goos, goarch, target, _, filename = PLATFORMS[name]
    out = BUILD / name / filename
    out.parent.mkdir(parents=True, exist_ok=True)
    env = {
        **os.environ,
        "GOOS": goos, "GOARCH": goarch, "CGO_ENABLED": "1", "CC": zig_cc(name, target), "GOFLAGS": "",
    }  # fmt: skip
    flags = "-s -w -buildid="
    if goos == "linux":  # the build id would hold a hash of paths
        flags += " -extldflags '-Wl,-s -Wl,--build-id=none -Wl,-z,nodelete'"
    if goos == "windows":
        flags += " -extldflags '-Wl,--no-insert-timestamp'"
    subprocess.run(
        ["go", "build", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-ldflags", flags, "-o", str(out), "."],
        cwd=HERE / "cabi", env=env, check=True,
    )  # fmt: skip
    return out


def wheel(name: str) -> None:
    lib = library(name)
    env = {
        **os.environ,
        "RANDFEAT_LIB": str(lib), "RANDFEAT_TAG": PLATFORMS[name][3], "SOURCE_DATE_EPOCH": "1735689600",
    }  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(DIST)], cwd=HERE, env=env, check=True
    )
    made = max(DIST.glob("*.whl"), key=lambda p: p.stat().st_mtime)
    print(f"{made.name}: {made.stat().st_size / 1e6:.2f} MB, library {lib.stat().st_size / 1e6:.1f} MB", flush=True)


def main(names: list[str]) -> int:
    unknown = [n for n in names if n not in PLATFORMS]
    if unknown:
        print(f"unknown platforms {unknown}, want some of {list(PLATFORMS)}", file=sys.stderr)
        return 2
    BUILD.mkdir(exist_ok=True)
    DIST.mkdir(exist_ok=True)
    for name in names or PLATFORMS:
        wheel(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
