"""From sample weights to the labels a person should review."""

from fedsift.audit.calibration import THRESHOLD, Calibration
from fedsift.audit.exports import SUFFIXES, write_issues
from fedsift.audit.noise_calibration import AnyCalibration, NoiseCalibration, read_calibration
from fedsift.audit.record import SiteRecord, read_record, sites_of
from fedsift.audit.site import SiteAudit, audit_site
from fedsift.audit.summary import SiteSummary

__all__ = [
    "SUFFIXES",
    "THRESHOLD",
    "AnyCalibration",
    "Calibration",
    "NoiseCalibration",
    "SiteAudit",
    "SiteRecord",
    "SiteSummary",
    "audit_site",
    "read_calibration",
    "read_record",
    "sites_of",
    "write_issues",
]
