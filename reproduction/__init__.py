"""The paper reproduced: data sets, methods, problems, figures, a resumable runner and a report.

It stands beside the library, uses it, and is no part of what is installed: `python -m reproduction` in the repository.
"""
