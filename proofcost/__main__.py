"""`python -m proofcost`."""

import sys

# `-m` puts the working directory in front. `run` may be root beside a judge that writes there: what we import later
# (and some we import while it runs) must not be found there. The package itself is found by now.
if not sys.flags.safe_path:
    del sys.path[0]

from proofcost.cli import main

sys.exit(main())
