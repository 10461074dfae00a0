"""Commands that fix a finding, now and persistently, for the manager of the link, with their
undo."""
