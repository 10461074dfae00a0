"""Rules about virtio NICs."""
