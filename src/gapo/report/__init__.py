"""A run, or several, as one HTML page that opens from disk and needs nothing else."""

from gapo.report.page import write_report
from gapo.report.run_files import Run, read_run

__all__ = ["Run", "read_run", "write_report"]
