"""Stand-in for SGLang's GPU kernel package, so that its server starts on a machine without a GPU.

PyPI carries no CPU build of `sgl_kernel`, and SGLang imports it (and names inside it) when it starts. With the torch
attention and the PyTorch sampling backend none of the kernels is called. Here every name and every submodule can be imported,
and calling anything fails with its name, so a kernel that is needed after all cannot be missed.
"""

import importlib.abc
import importlib.machinery
import sys
import types

__version__ = "0.4.10"  # SGLang refuses a kernel package older than the one it was released with


class Missing:
    """A name of the kernel package; it can be passed around and looked into, but not called."""

    def __init__(self, path):
        self._path = path

    def __getattr__(self, name):
        return missing(f"{self._path}.{name}")

    def __call__(self, *_args, **_kwargs):
        raise NotImplementedError(f"{self._path}: this stand-in has no kernels")


def missing(path):
    """The stand-in for `path`; double-underscore names stay absent, since the import system probes them."""
    name = path.rpartition(".")[2]
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(path)


class Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers the import of any `sgl_kernel.*` module with an empty module whose every name is a `Missing`."""

    def find_spec(self, fullname, _path=None, _target=None):
        if fullname.startswith(__name__ + "."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        module.__getattr__ = lambda name: missing(f"{module.__name__}.{name}")


def __getattr__(name):
    return missing(f"{__name__}.{name}")


sys.meta_path.append(Submodules())
