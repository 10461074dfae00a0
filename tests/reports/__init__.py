"""Public problem reports as cases: what the rules must say about them, and what they must not
say."""
