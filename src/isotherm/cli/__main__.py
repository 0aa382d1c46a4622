"""`python -m isotherm.cli`, as torchrun starts it."""

import sys

from isotherm.cli import main

sys.exit(main())
