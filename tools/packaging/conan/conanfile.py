# Conan 2 recipe: `conan create tools/packaging/conan` packs this checkout. What Weft is built from comes from the system's
# packages (`-c tools.system.package_manager:mode=install` installs them), so that no Conan server is asked for anything.
# A consumer uses Weft's own package file: find_package(weft), with CMakeToolchain alone.
import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt


class Weft(ConanFile):
    name = "weft"
    description = "torch.compile for native C++"
    license = "Apache-2.0"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    @property
    def _checkout(self):
        return Path(self.recipe_folder).parents[2]

    def set_version(self):
        header = load(self, self._checkout / "include/weft/version.hpp")
        self.version = ".".join(re.findall(r"#define WEFT_VERSION_[A-Z]+ (\d+)", header))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "tools/weft_run/*"):
            copy(self, pattern, src=self._checkout, dst=self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        Apt(self).install([
            "libboost1.81-dev", "libeigen3-dev", "libjpeg-dev", "libminizip-dev", "libpng-dev", "librange-v3-dev",
            "libturbojpeg0-dev", "libxxhash-dev", "nlohmann-json3-dev", "zlib1g-dev"])

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables["WEFT_" + option] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=Path(self.package_folder) / "licenses")
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/weft"]
        self.cpp_info.libs = ["weft"]
