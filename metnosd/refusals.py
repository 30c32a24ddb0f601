"""What the operating system refuses, as a refusal that the user is told."""

from __future__ import annotations

import errno

from metnosd.sentence import Refusal

_REASONS = {
    errno.ENOENT: "scope.missing",
    errno.ENOTDIR: "scope.not_dir",
    errno.EISDIR: "scope.not_file",
    errno.ELOOP: "scope.link",
    errno.EACCES: "scope.denied",
    errno.EPERM: "scope.denied",
    errno.EROFS: "scope.read_only",
    errno.ENAMETOOLONG: "scope.too_long",
    errno.EEXIST: "effect.exists",
    errno.ENOTEMPTY: "effect.not_empty",
    errno.ENOSPC: "effect.disk_full",
    errno.EDQUOT: "effect.disk_full",
    errno.EFBIG: "effect.disk_full",
}


def refusal_of(error: OSError, shown: str) -> Refusal:
    """The refusal that tells of `error`, met at the path that is shown as `shown`."""
    key = _REASONS.get(error.errno or 0)
    if key is None:
        return Refusal("effect.failed", path=shown, reason=error.strerror or str(error))
    return Refusal(key, path=shown)
