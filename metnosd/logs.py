"""Logging: structured lines on stderr, where systemd's journal takes them, without the secrets."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from metnosd.redact import Redactor


def configure_logs(level: str, redactor: Redactor | None = None) -> None:
    """Log what is at least `level` (debug, info, warning, error): as key=value, with colours on a terminal.

    No line, of ours or of a library, holds a secret that `redactor` knows when the line is written.
    """
    redactor = redactor or Redactor()
    terminal = sys.stderr.isatty()
    # Tracebacks are texts when they come to the renderer; a formatter for more than that would only warn.
    plain = structlog.dev.plain_traceback
    renderer: Callable[[WrappedLogger, str, EventDict], str]
    renderer = structlog.dev.ConsoleRenderer(colors=terminal, exception_formatter=plain)
    if not terminal:
        renderer = structlog.processors.LogfmtRenderer(key_order=["level", "event"], bool_as_flag=False)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            *([structlog.processors.TimeStamper(fmt="iso")] if terminal else []),
            _redacting(renderer, redactor),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # Libraries log through logging; httpx logs request URLs, which can hold tokens, at INFO.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    for handler in logging.getLogger().handlers:
        inner = handler.formatter
        while isinstance(inner, _RedactingFormatter):
            inner = inner.plain
        handler.setFormatter(_RedactingFormatter(inner, redactor))
    # A record that cannot be formatted would be printed with its arguments, past the formatter.
    logging.raiseExceptions = False


def _redacting(renderer: Callable[[WrappedLogger, str, EventDict], str], redactor: Redactor) -> Processor:
    """`renderer` without secrets: out of texts before it escapes them, and out of what else it makes text of."""

    def render(logger: WrappedLogger, name: str, event: EventDict) -> str:
        return redactor.text(renderer(logger, name, dict(redactor.value(event))))

    return render


class _RedactingFormatter(logging.Formatter):
    """What another formatter makes of a record, with its traceback, without secrets."""

    def __init__(self, plain: logging.Formatter | None, redactor: Redactor) -> None:
        super().__init__()
        self.plain = plain or logging.Formatter()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        try:
            text = self.plain.format(record)
        except (TypeError, ValueError, KeyError):
            text = f"{record.levelname}:{record.name}:{record.msg!r} with {record.args!r}"
        return self._redactor.text(text)
