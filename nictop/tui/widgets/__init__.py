"""Live widgets that draw lines themselves, and panels built of stock Textual."""
