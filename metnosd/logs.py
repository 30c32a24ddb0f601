"""Logging: structured lines on stderr, where systemd's journal takes them."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(level: str) -> None:
    """Log what is at least `level` (debug, info, warning, error): as key=value, with colours on a terminal."""
    terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer(colors=terminal)
    if not terminal:
        renderer = structlog.processors.LogfmtRenderer(key_order=["level", "event"], bool_as_flag=False)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            *([structlog.processors.TimeStamper(fmt="iso")] if terminal else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # Libraries log through logging; httpx logs request URLs, which can hold tokens, at INFO.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
