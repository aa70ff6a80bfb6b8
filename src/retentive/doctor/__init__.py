"""Checks that stored data is consistent, and repairs a value if the correct value is certain."""

from retentive.doctor.check import check, repair
from retentive.doctor.locations import check_location
from retentive.storage.findings import KINDS, Finding, Kind, Severity

__all__ = ["KINDS", "Finding", "Kind", "Severity", "check", "check_location", "repair"]
