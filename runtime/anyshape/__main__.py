"""`python -m anyshape`, the same as `anyshape`."""

import sys

from anyshape.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
