"""A run: chart, legend, hosts, form, results."""
