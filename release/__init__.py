"""``python -m release`` (make dist): wheel, source distribution, offline file and Debian package in
dist/."""
