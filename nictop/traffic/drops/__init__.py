"""Reasons for which a host drops packets: `session` asks its probe, `reasons` says what the
kernel's reasons mean, `result` has what was dropped with the findings and commands that lead
further."""
