"""What is reached through a host: guests, containers, network namespaces.

A probe there is a command of the host whose stdin and stdout are those of the probe: the command
that starts the probe, wrapped in others (`wrapping`), so that all else is as for a host. In: the
levels below the host (`levels`). Out: words of a command line, and why it was not run (`reasons`).
"""
