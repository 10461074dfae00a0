"""The host itself: platform, interrupts, threads, daemons, virtual machines, sysctls, kernel
messages.

In: /proc, /sys, /dev/kmsg, DMI strings. Out: `Platform`, `Interrupt`, `Thread`, `Services`,
`Settings` and `KernelMessage` records. Another sysctl: a name in `sysctl`; another kernel message:
its text in `message_table`.
"""
