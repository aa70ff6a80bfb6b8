"""Every promise a place makes about what rests in it, checked; and what of that can be repaired, repaired."""

from retentive.doctor.check import check
from retentive.doctor.locations import check_place
from retentive.doctor.repair import repair
from retentive.storage.findings import KINDS, Finding, Kind, Severity

__all__ = ["KINDS", "Finding", "Kind", "Severity", "check", "check_place", "repair"]
