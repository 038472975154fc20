"""The studio: local pages for everything, from a file of rows to a release. See docs/studio.md."""

from .server import Settings, create_app, serve

__all__ = ["Settings", "create_app", "serve"]
