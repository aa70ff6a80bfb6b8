"""Checks that stored data is consistent, and rebuilds data that follows from other stored data."""

from retentive.doctor.check import check, check_location
from retentive.storage.findings import KINDS, Finding, Kind, Severity

__all__ = ["KINDS", "Finding", "Kind", "Severity", "check", "check_location"]
