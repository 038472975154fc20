"""The paper reproduced: methods, problems, figures, a resumable runner and a report."""
