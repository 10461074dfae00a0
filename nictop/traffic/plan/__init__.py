"""A run before it begins: endpoints, quantities, request, generator, checked values."""
