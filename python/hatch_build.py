"""Puts the native library into the wheel: the one that wheels.py names, or one that Go builds here for this machine."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wheels  # noqa: E402


class Hook(BuildHookInterface):
    """RANDFEAT_LIB names the library, RANDFEAT_TAG its platform."""

    def dependencies(self):
        """zig, unless there is a C compiler or wheels.py has built the library."""
        return [] if os.environ.get("RANDFEAT_LIB") or compiler() else ["ziglang"]

    def initialize(self, version, build_data):
        if version == "editable":
            return
        lib, tag = os.environ.get("RANDFEAT_LIB"), os.environ.get("RANDFEAT_TAG")
        if not lib:
            if problem := obstacle():
                self.app.abort(f"randfeat: {problem}")
            tag = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            lib = wheels.BUILD / "here" / wheels.FILES.get(sys.platform, "librandfeat.so")
            try:
                wheels.library(lib, sys.platform, {"CC": compiler() or f'"{sys.executable}" -m ziglang cc'})
            except subprocess.CalledProcessError:
                self.app.abort("randfeat: Go could not build the library; its messages are above")
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + tag
        build_data["force_include"] = {str(lib): "randfeat/" + os.path.basename(lib)}


def compiler():
    return os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")


def obstacle():
    """What keeps this machine from building the library."""
    if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or ""):
        return "shared libraries of Go do not load on Alpine Linux, which has musl: use a system with glibc"
    if not (pathlib.Path(wheels.HERE).parent / "go.mod").exists():
        return "no wheel for this system, and this folder alone does not build one: install ./python of a checkout"
    if not shutil.which("go"):
        return "the native library is built with Go 1.26 or later, and there is no 'go': install it from https://go.dev/dl"
    return None
