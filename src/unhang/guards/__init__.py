"""What users call in their own loop so that it does not stall; without torch.distributed nothing happens.

Ranks speak out of band here, through the store they met in (``meeting``): no guard starts a collective, so no
watchdog limit applies while one waits, and every wait has a limit of its own.
"""
