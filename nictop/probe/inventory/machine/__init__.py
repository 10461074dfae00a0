"""The host itself: CPUs, interrupts, sysctl, kernel messages, daemons, virtual machines, hypervisor."""
