"""Form, run, results and comparison of traffic."""
