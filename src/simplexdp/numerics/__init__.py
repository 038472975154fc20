"""Ground layer: differences of log-gamma that do not cancel, safe-side roots, intervals."""
