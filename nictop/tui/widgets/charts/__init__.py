"""Charts of characters: plot, sparkline, bars, stacked."""
