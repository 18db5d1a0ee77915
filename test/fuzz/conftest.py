# SPDX-License-Identifier: Apache-2.0
"""The harness is run as a script too, so its modules find each other beside themselves."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
