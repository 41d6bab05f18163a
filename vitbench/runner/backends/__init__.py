"""Backends, on which trials run: this machine, a Ray cluster, a Slurm queue. One file each, found by its name."""
