"""``nictop fix`` and ``nictop setup``: options, questions, and the change itself without a
screen."""
