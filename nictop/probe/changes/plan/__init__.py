"""What a change would touch: present values to restore, and what depends on them (SSH, default route)."""
