"""``python -m fedsift``."""

import sys

from fedsift.cli.main import main

sys.exit(main())
