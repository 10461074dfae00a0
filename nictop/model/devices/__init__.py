"""NICs and their relations: device tree, overview of all hosts, pairs, subnets, ceilings,
filters."""
