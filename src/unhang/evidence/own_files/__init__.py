"""Files that unhang itself wrote beside a job: the bundle's manifest, the series of ranks and machines, settings."""
