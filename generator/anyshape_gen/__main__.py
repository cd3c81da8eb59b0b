"""Runs the generator's command, `python -m anyshape_gen`."""

import sys

from anyshape_gen.cli import main

sys.exit(main())
