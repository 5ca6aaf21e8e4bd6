# What `conan create` does with the package that it made: builds and runs the program of tests/consumer with it.
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class Consumer(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=Path(self.recipe_folder).parents[3] / "tests/consumer/find_package")
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(str(Path(self.build_folder, self.cpp.build.bindir, "consumer")), env="conanrun")
