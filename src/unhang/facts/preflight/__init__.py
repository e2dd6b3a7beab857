"""What ``unhang check`` knows before a job starts: typed statements about this machine and the job that is planned."""
