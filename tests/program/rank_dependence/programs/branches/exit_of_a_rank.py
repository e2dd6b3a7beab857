"""What follows the end of a rank."""

import sys


if os.environ["RANK"] == "1":
    sys.exit(0)  # finds: if os.environ['RANK'] == '1'
dist.barrier()  # finds: exit os.environ['RANK'] == '1'
