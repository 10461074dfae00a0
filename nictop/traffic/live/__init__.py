"""Views of a run for charts, while it runs and afterwards."""
