"""Findings: panel, list, page of one."""
