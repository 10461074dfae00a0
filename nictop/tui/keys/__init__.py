"""Key bindings, each with identifier, label and tooltip."""
