"""Puts the native library into the wheel. wheels.py builds the library and runs this for each platform."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):
    """RANDFEAT_LIB names the library, RANDFEAT_TAG its platform."""

    def initialize(self, version, build_data):
        if version == "editable":
            return
        lib, tag = os.environ.get("RANDFEAT_LIB"), os.environ.get("RANDFEAT_TAG")
        if not lib or not tag:
            raise RuntimeError(
                "randfeat is installed from a wheel, which holds its native library: there is none for this system "
                "(Alpine Linux has musl, where shared libraries of Go do not load). In a checkout, 'make wheels' "
                "builds them."
            )
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + tag
        build_data["force_include"] = {lib: "randfeat/" + os.path.basename(lib)}
