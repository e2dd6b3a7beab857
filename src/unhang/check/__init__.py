"""``unhang check``: collect what this machine and the planned job are, and judge it before there is a stall."""
