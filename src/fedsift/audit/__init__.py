"""From sample weights to the labels a person should review."""

from fedsift.audit.calibration import THRESHOLD, Calibration
from fedsift.audit.exports import SUFFIXES, write_issues
from fedsift.audit.issues import label_issues
from fedsift.audit.site import SiteAudit, audit_site
from fedsift.audit.summary import SiteSummary

__all__ = [
    "SUFFIXES",
    "THRESHOLD",
    "Calibration",
    "SiteAudit",
    "SiteSummary",
    "audit_site",
    "label_issues",
    "write_issues",
]
