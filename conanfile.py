# SPDX-License-Identifier: MIT
# Conan 2: `conan create .` packages the headers and tests them by test_package/.
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load
from conan.tools.layout import basic_layout


class MortiseConan(ConanFile):
    name = "mortise"
    description = "Distributed locks in Redis with fencing tokens: a header-only C++20 library over hiredis"
    license = "MIT"
    topics = ("redis", "valkey", "distributed-lock", "mutex", "fencing-token", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    exports_sources = "include/*", "LICENSE"
    no_copy_source = True

    def set_version(self):
        # The version is written once, in version.hpp.
        text = load(self, os.path.join(self.recipe_folder, "include", "mortise", "version.hpp"))
        numbers = [re.search(rf"#define MORTISE_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
        self.version = ".".join(numbers)

    def layout(self):
        basic_layout(self)

    def requirements(self):
        # Its headers are part of ours.
        self.requires("hiredis/[>=0.14 <2]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        copy(self, "*.hpp", src=os.path.join(self.source_folder, "include"), dst=os.path.join(self.package_folder, "include"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "mortise")
        self.cpp_info.set_property("cmake_target_name", "mortise::mortise")
        self.cpp_info.set_property("pkg_config_name", "mortise")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
