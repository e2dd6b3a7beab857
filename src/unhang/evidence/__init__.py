"""Read what a job left behind: one source format a file. Readers return items or *unread(reason)*."""
