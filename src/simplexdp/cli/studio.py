"""`simplexdp studio`: the local pages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def studio(
    folder: Annotated[Path, typer.Argument(help="The folder of the data, the ledger and the results.")] = Path(),
    port: Annotated[int, typer.Option(help="On 127.0.0.1; a free one by default.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the address in a browser.")] = True,
    role: Annotated[str, typer.Option(help="officer, who spends, or analyst, who plans and asks.")] = "officer",
    ledger: Annotated[Path, typer.Option(help="The ledger, relative to the folder.")] = Path("ledger.db"),
) -> None:
    """Serve local pages for everything, from choosing columns to a release, at an address that only you know."""
    from ..studio import serve

    chosen: Any = role
    serve(folder, port=port, browser=browser, role=chosen, ledger=ledger, say=typer.echo)
