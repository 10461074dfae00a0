"""Rules about vmxnet3 NICs."""
