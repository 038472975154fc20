"""Audits: a statistically valid lower bound on ε beside the value that is claimed."""

from .evidence import Event, Evidence, Finding
from .fitted import audit_fit
from .run import Audit, audit, audit_mechanism
from .worst_case import WorstCase

__all__ = ["Audit", "Event", "Evidence", "Finding", "WorstCase", "audit", "audit_fit", "audit_mechanism"]
