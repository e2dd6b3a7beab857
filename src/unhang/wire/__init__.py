"""What one process of unhang writes and another one reads: each file and record as one typed structure.

What ranks import of it (``record``, ``control``, ``process_registration``, …) needs the standard library only.

A records folder (``UNHANG_RUN``, local file system, 0700) holds::

    births/<attempt>.<pid>.json   every Python process that was started with RANK set; not every one is a rank
    births/<attempt>.<pid>.log    what went wrong with us in that process, a line each; usually missing
    <attempt>.<pid>.rec           a rank's record, from the moment it enters init_process_group
    <attempt>.<pid>.bell          a FIFO: a byte in it ends the sleep of our thread in that rank
    control                       what the watcher asks for

A record is 32 KiB: a header that never changes after creation, then two slots of equal size, written in turn. Each slot
carries its sequence number, its length and its checksum, so a reader takes the newest slot that is whole: being
killed in the middle of a write, or read in the middle of one, costs at most one beat. Little endian throughout.

Times end in ``_ns``: ``*_wall_ns`` is the wall clock, everything else the monotonic clock of this machine (the same
in every process of it). Minus one means "none yet". Ranks are global. Standard library only.
"""
