# SPDX-License-Identifier: MIT
"""carry_out.py SOURCE FOLDER VERSION: carries out the Conan recipes without Conan.

A stand-in takes the place of the few names they import. It shows that the recipes are Python, that the version is that of
version.hpp, and which files and which properties the package gets; not what Conan makes of them.
"""

import importlib.util
import os
import shutil
import sys
import types

source, folder, version = sys.argv[1:]
minimum_standard = []


def copy(_recipe, pattern, src, dst):
    count = 0
    for where, _, names in os.walk(src):
        for name in names:
            if pattern == name or (pattern.startswith("*") and name.endswith(pattern[1:])):
                target = os.path.join(dst, os.path.relpath(where, src))
                os.makedirs(target, exist_ok=True)
                shutil.copy(os.path.join(where, name), target)
                count += 1
        if not pattern.startswith("*"):
            break
    assert count > 0, f"copy {pattern} from {src}: nothing"


def load(_recipe, path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class ConanFile:
    def __init__(self):
        self.required = {}
        self.settings = types.SimpleNamespace(os="Linux")
        self.info = types.SimpleNamespace(clear=lambda: setattr(self, "independent", True))
        self.cpp_info = types.SimpleNamespace(properties={}, set_property=lambda key, value: self.cpp_info.properties.update({key: value}))

    def requires(self, reference, **traits):
        self.required[reference] = traits


def stand_in(name, **content):
    module = types.ModuleType(name)
    module.__dict__.update(content)
    sys.modules[name] = module


def nothing(*_arguments):
    pass


stand_in("conan", ConanFile=ConanFile)
stand_in("conan.tools")
stand_in("conan.tools.build", check_min_cppstd=lambda _recipe, standard: minimum_standard.append(standard), can_run=lambda _recipe: True)
stand_in("conan.tools.files", copy=copy, load=load)
stand_in("conan.tools.layout", basic_layout=nothing)
stand_in("conan.tools.cmake", CMake=object, cmake_layout=nothing)


def recipe_in(path):
    spec = importlib.util.spec_from_file_location("recipe", path)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    [found] = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, ConanFile) and each is not ConanFile]
    return found()


shutil.rmtree(folder, ignore_errors=True)
recipe = recipe_in(os.path.join(source, "conanfile.py"))
recipe.recipe_folder = recipe.source_folder = source
recipe.package_folder = folder
recipe.set_version()
assert recipe.version == version, f"the recipe says version {recipe.version}, version.hpp {version}"
for step in (recipe.layout, recipe.requirements, recipe.validate, recipe.package_id, recipe.package, recipe.package_info):
    step()

[(reference, traits)] = recipe.required.items()
assert reference.startswith("hiredis/") and traits == {"transitive_headers": True}, recipe.required
assert minimum_standard == [20] and recipe.independent
assert recipe.cpp_info.properties["cmake_target_name"] == "mortise::mortise"
headers = os.path.join("include", "mortise")
packaged = {os.path.relpath(os.path.join(where, name), os.path.join(folder, headers)) for where, _, names in os.walk(os.path.join(folder, headers)) for name in names}
written = {os.path.relpath(os.path.join(where, name), os.path.join(source, headers)) for where, _, names in os.walk(os.path.join(source, headers)) for name in names}
assert packaged == written, f"packaged and written headers differ: {sorted(packaged ^ written)}"
assert os.path.exists(os.path.join(folder, "licenses", "LICENSE"))

test = recipe_in(os.path.join(source, "test_package", "conanfile.py"))
test.tested_reference_str = f"mortise/{version}"
test.requirements()
assert list(test.required) == [test.tested_reference_str]
print(f"mortise/{version}: {len(packaged)} headers, requires {reference}")
