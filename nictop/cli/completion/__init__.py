"""Completion of the command line in bash, zsh and fish, made from the argparse definitions.

`grammar` reads the parsers; `bash`, `zsh` and `fish` each write a script from it. A script contains
the commands, options and rules; for hosts and saved results it runs ``nictop completion hosts`` and
``nictop completion results``.
"""
