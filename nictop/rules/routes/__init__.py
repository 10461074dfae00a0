"""Rules about where packets go: gateways, routes, policy rules, neighbours."""
