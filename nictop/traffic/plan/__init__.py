"""A run before it starts: request, endpoints, quantities, generator, validation."""
