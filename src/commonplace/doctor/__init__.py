"""Every promise a place makes about what rests in it, checked; and what of that can be repaired, repaired."""

from commonplace.backends.findings import KINDS, Finding, Kind, Severity
from commonplace.doctor.checking import check
from commonplace.doctor.places import check_place
from commonplace.doctor.repairing import repair

__all__ = ["KINDS", "Finding", "Kind", "Severity", "check", "check_place", "repair"]
