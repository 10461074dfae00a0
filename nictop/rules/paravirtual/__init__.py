"""Rules about virtio, vmxnet3 and Hyper-V NICs."""
