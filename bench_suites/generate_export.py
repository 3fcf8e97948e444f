"""Write one generated export: `python3 -I -S generate_export.py FAMILY:n[:seed] --out PATH`.

What it writes, and why, stands in families/. This is their plain script: it needs an interpreter and this package's
own files, nothing installed, so that the demo's judge can run it inside a sandbox.
"""

import argparse
import os
import sys
from pathlib import Path


def _find_package() -> None:
    """Make `proofcost` importable: it is what this file lies in when installed, and beside its folder in a checkout."""
    here = Path(__file__).resolve()
    root = next(folder for folder in here.parents if (folder / "proofcost" / "bench_suites").is_dir())
    sys.path.insert(0, str(root))


def main(arguments: list[str] | None = None) -> int:
    """Exit 0 when written, 1 when the output could not be written, 2 on wrong usage."""
    from proofcost.bench_suites import families  # here, when it can be found
    from proofcost.harness.whole_file import whole_file

    parser = argparse.ArgumentParser(
        prog="generate_export", description="Write a lean4export NDJSON 3.1.0 export of our own making."
    )
    parser.add_argument("spec", metavar="FAMILY:n[:seed]", help=f"families: {', '.join(families.names())}")
    parser.add_argument("--out", default="-", help="a path, or - for stdout (default)")
    options = parser.parse_args(arguments)
    try:
        chosen = families.parse(options.spec)
    except families.FamilyError as error:
        parser.error(str(error))
    try:
        if options.out == "-":
            chosen.write(sys.stdout.buffer.write)
            sys.stdout.flush()
        else:
            with whole_file(options.out) as file:
                chosen.write(file.write)
    except BrokenPipeError:
        # The reader went away; give the interpreter's own flush at exit somewhere to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"generate_export: cannot write {options.out}: {error.strerror}; name a writable path", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    _find_package()
    sys.exit(main())
