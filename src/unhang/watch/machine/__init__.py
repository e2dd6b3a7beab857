"""What the machine was doing beside the job, sampled every ten seconds."""
