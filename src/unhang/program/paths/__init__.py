"""The ways that ranks may take through a program: where one meets a collective and the other does not.

``steps`` holds what is read of a function, ``reading`` reads it, ``values`` follows what differs by rank,
``traces`` turns steps into sequences of collectives that can be compared, ``search`` finds where they differ, and
``whole_program`` does all that for one launch.
"""
