"""What one process does, seen from outside: py-spy, ``/proc``, the kernel."""
