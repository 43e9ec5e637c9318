"""Mutants by machine: every protocol and part changed by rule, one change at a time, to see what notices.

`make mutants-all` (`python -m tests.mutants.machine`) runs it; docs/campaigns.md says how, and what came of it.
"""
