"""From sample weights to the labels a person should review."""

from fedsift.audit.calibration import THRESHOLD, Calibration
from fedsift.audit.exports import SUFFIXES, write_issues
from fedsift.audit.record import SiteRecord, read_record, sites_of
from fedsift.audit.site import SiteAudit, audit_site
from fedsift.audit.summary import SiteSummary

__all__ = [
    "SUFFIXES",
    "THRESHOLD",
    "Calibration",
    "SiteAudit",
    "SiteRecord",
    "SiteSummary",
    "audit_site",
    "read_record",
    "sites_of",
    "write_issues",
]
