"""Checks of all invariants of stored memory stores, and repairs where the right value is certain."""

from retentive.doctor.check import check, repair
from retentive.doctor.locations import check_place
from retentive.storage.findings import KINDS, Finding, Kind, Severity

__all__ = ["KINDS", "Finding", "Kind", "Severity", "check", "check_place", "repair"]
