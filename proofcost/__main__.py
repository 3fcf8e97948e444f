"""`python -m proofcost`."""

import sys

from proofcost.cli import main

sys.exit(main())
