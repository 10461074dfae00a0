"""Where packets of this host go: neighbour tables, routes of all tables, policy rules, name
servers."""
