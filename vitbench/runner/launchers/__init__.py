"""What places a study's processes: this machine, a Ray cluster, a Slurm queue. One file each, found by its name."""
