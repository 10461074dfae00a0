"""Units, words of kernel values, and text that is safe and fits on a terminal."""
