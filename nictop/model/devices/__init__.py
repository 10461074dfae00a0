"""NICs and how they belong together: device tree, overview of all hosts, pairs, subnets, ceilings, filters."""
