"""`python -m outrider`."""

import sys

from outrider.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
