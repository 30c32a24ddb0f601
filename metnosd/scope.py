"""What a person may reach: the files and folders below their roots, without what is hidden.

`locate` turns what was said into a path, with every convenience; what it returns is a promise about names
only. Each use of a path walks again from the descriptor of its root, one component at a time and through no
link (`parent`, `open_dir`, `open_file`), so that a folder swapped for a link in between is refused.

Paths are absolute strings as `os.fsdecode` gives them: bytes that are no UTF-8 are lone surrogates.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Literal

from metnosd.entries import Entry, printable
from metnosd.finder import Finder
from metnosd.keep import Keep
from metnosd.refusals import refusal_of
from metnosd.sentence import Refusal, Sentence, say

Want = Literal["dir", "file", "any"]
Kind = Literal["file", "dir", "link", "other"]

MAX_NAME_BYTES = 255
MAX_PATH = 4000
_OPEN_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_OTHER_HOME = re.compile(r"~[\w.-]+(/|$)")


@dataclass(frozen=True, slots=True)
class Item:
    """A regular file or a folder that a scan met; `modified_ns` are nanoseconds since 1970."""

    path: str
    is_dir: bool
    size: int
    modified_ns: int
    identity: tuple[int, int]

    @property
    def name(self) -> str:
        """The last component of the path."""
        return os.path.basename(self.path)

    def entry(self, zone: tzinfo = UTC) -> Entry:
        """The item as an entry of kind `files` or `dirs`, its time in `zone`."""
        fields = {
            "path": self.path,
            "name": self.name,
            "size": self.size,
            "modified": instant_of(self.modified_ns, zone),
        }
        return Entry("dirs" if self.is_dir else "files", fields)


def instant_of(nanoseconds: int, zone: tzinfo = UTC) -> datetime:
    """The instant of a file time; one outside the years 1 to 9999 becomes the nearest end."""
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, zone)
    except (OverflowError, ValueError, OSError):
        return (datetime.max if nanoseconds > 0 else datetime.min).replace(tzinfo=UTC)


def kind_of(mode: int) -> Kind:
    """What a file mode (`st_mode` of lstat) stands for."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else "other"


class Scope:
    """The part of the file system that one person may reach through Metnos.

    `roots` are folders; a root that is a link stands for its target. `home` is what `~` means.
    `folder_words` maps a word of any language, casefolded, to a key of the XDG user folders ("scaricati" to
    "DOWNLOAD"). `keep` holds what was deleted or overwritten. `closed` are folders and files that stay out of
    reach, as the keep always does; a root inside one is out of reach whole.
    """

    def __init__(
        self,
        roots: Sequence[str],
        *,
        home: str | None,
        folder_words: Mapping[str, str] | None = None,
        keep: Keep | None = None,
        closed: Sequence[str] = (),
    ) -> None:
        self._aliases = {os.path.normpath(root): os.path.realpath(root) for root in roots}
        self.roots: tuple[str, ...] = tuple(dict.fromkeys(self._aliases.values()))
        self.home = os.path.realpath(home) if home else None
        self.keep = keep
        if home and self.home:
            self._aliases.setdefault(os.path.normpath(home), self.home)
        kept = (keep.folder,) if keep else ()
        shut = (os.path.realpath(folder) for folder in (*closed, *kept))
        self._closed = tuple(one for one in shut if any(self._matters(one, root) for root in self.roots))
        self._finder = Finder(self.roots, self.home, folder_words or {}, self._admit, self.shown)

    @staticmethod
    def _matters(shut: str, root: str) -> bool:
        """Whether closing `shut` takes anything away from `root` that is not hidden anyway."""
        inside = is_inside(shut, root) and not any(part.startswith(".") for part in shut[len(root) :].split("/"))
        return inside or is_inside(root, shut)

    def locate(self, text: str, want: Want = "any") -> str:
        """The absolute path, inside the roots, of the thing that was called `text`.

        An exact name wins over another case, that over the localised name of a user folder, that over a
        name deeper in the tree. Raises Question when two fit equally, Refusal when nothing fits, the thing
        is not what is wanted, or lies out of reach.
        """
        base, parts = self._read(text)
        return self._finder.find(text, base, parts, want)

    def locate_new(self, text: str, want: Want = "any") -> str:
        """Like `locate`, for something that may still have to be made, with its last folders if need be.

        What exists wins, but deeper in the tree only a folder is looked for. What does not exist is placed
        in the longest part of `text` that does, or in the first root.
        """
        base, parts = self._read(text)
        return self._finder.place(text, base, parts, want)

    def shown(self, path: str) -> str:
        """The path as people read it: `~` for the home, and nothing that hides or reorders characters."""
        if self.home and is_inside(path, self.home):
            path = "~" + path[len(self.home) :]
        return printable(path)

    def open_dir(self, path: str) -> int:
        """A descriptor of the folder `path`, reached from its root without following links.

        Raises Refusal when it is out of reach, gone, no folder, or a link now stands in the way.
        """
        root, parts = self._split(path)
        try:
            descriptor = os.open(root, _OPEN_DIR)
        except OSError as error:
            raise self._refusal(error, path) from error
        for part in parts:
            try:
                deeper = os.open(part, _OPEN_DIR, dir_fd=descriptor)
            except OSError as error:
                raise self._refusal(error, path, descriptor, part) from error
            finally:
                os.close(descriptor)
            descriptor = deeper
        return descriptor

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder that holds `path`, and the name of `path` in it.

        Raises Refusal like `open_dir`, and for a root itself, which has no parent in reach.
        """
        if not self._split(path)[1]:
            raise Refusal("scope.root", path=self.shown(path))
        folder, name = os.path.split(path.rstrip("/"))
        descriptor = self.open_dir(folder)
        try:
            yield descriptor, name
        finally:
            os.close(descriptor)

    def lstat(self, path: str) -> os.stat_result | None:
        """The status of `path` itself, not of what a link points to; None if there is nothing.

        Raises Refusal when its folder is out of reach or missing.
        """
        with self.parent(path) as (folder, name):
            try:
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise self._refusal(error, path) from error

    def item(self, path: str) -> Item:
        """The regular file or folder `path` as it is now; raises Refusal for anything else."""
        if path in self.roots:
            descriptor = self.open_dir(path)
            try:
                return _item(path, os.fstat(descriptor))
            finally:
                os.close(descriptor)
        status = self.lstat(path)
        if status is None:
            raise Refusal("scope.missing", path=self.shown(path))
        kind = kind_of(status.st_mode)
        if kind in ("link", "other"):
            raise Refusal("scope.link" if kind == "link" else "scope.special", path=self.shown(path))
        return _item(path, status)

    def open_file(self, path: str) -> int:
        """A descriptor for reading the regular file `path`; pipes, devices and sockets are never opened.

        Raises Refusal when it is out of reach, unreadable or no regular file.
        """
        with self.parent(path) as (folder, name):
            try:
                if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise self._not_regular(path, folder, name)
                descriptor = os.open(name, _OPEN_FILE, dir_fd=folder)
            except OSError as error:
                raise self._refusal(error, path, folder, name) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Refusal("scope.special", path=self.shown(path))
        return descriptor

    def scan(
        self,
        path: str,
        *,
        recursive: bool = True,
        problems: list[Sentence] | None = None,
        limit: int = 100_000,
        check: Callable[[], None] = lambda: None,
    ) -> Iterator[Item]:
        """The regular files and folders below `path`, folder by folder, names in order.

        Links, hidden names and special files are passed over. A folder that cannot be read adds a sentence
        to `problems`, as does the end of the scan after `limit` names. Raises Refusal if `path` itself
        cannot be read.
        """
        seen = 0
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            check()
            try:
                items = self._list(folder, limit - seen + 1)
            except Refusal as refusal:
                if folder == path:
                    raise
                if problems is not None:
                    problems.append(refusal.sentence)
                continue
            waiting.extend(item.path for item in reversed(items) if item.is_dir and recursive)
            for item in items:
                seen += 1
                if seen > limit:
                    if problems is not None:
                        problems.append(say("scope.too_many", path=self.shown(path), count=limit))
                    return
                yield item

    def is_hidden(self, path: str) -> bool:
        """Whether `path` is out of reach although it lies below a root."""
        root = self._root_of(path)
        if root is None:
            return False
        parts = path[len(root) :].split("/")
        return any(part.startswith(".") for part in parts) or any(is_inside(path, shut) for shut in self._closed)

    def _list(self, path: str, limit: int) -> list[Item]:
        descriptor = self.open_dir(path)
        items: list[Item] = []
        try:
            with os.scandir(descriptor) as listing:
                for found in listing:
                    inner = os.path.join(path, found.name)
                    if found.name.startswith(".") or any(is_inside(inner, shut) for shut in self._closed):
                        continue
                    try:
                        status = found.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if kind_of(status.st_mode) in ("file", "dir"):
                        items.append(_item(inner, status))
                    if len(items) >= limit:
                        break
        except OSError as error:
            raise self._refusal(error, path) from error
        finally:
            os.close(descriptor)
        return sorted(items, key=lambda item: item.path)

    def _read(self, text: str) -> tuple[str | None, tuple[str, ...]]:
        """What was said as a base folder (None: any root) and the components below it."""
        if not self.roots:
            raise Refusal("scope.no_roots")
        if not text.strip():
            raise Refusal("scope.empty")
        shown = printable(text.strip())
        try:
            size = max(len(os.fsencode(part)) for part in text.split("/"))
        except UnicodeEncodeError:
            raise Refusal("scope.bad_name", name=shown) from None
        if "\0" in text:
            raise Refusal("scope.bad_name", name=shown[:100])
        if size > MAX_NAME_BYTES or len(text) > MAX_PATH:
            raise Refusal("scope.too_long", path=shown[:100])
        if text.lstrip().startswith(("/", "~")):
            text = text.lstrip()
        if text == "~" or text.startswith("~/"):
            if self.home is None:
                raise Refusal("scope.outside", path=shown)
            text = self.home + text[1:]
        elif _OTHER_HOME.match(text):
            raise Refusal("scope.outside", path=shown)
        if text.startswith("/"):
            path = self._unalias("/" + os.path.normpath(text).lstrip("/"))
            root, parts = self._split(path)
            return root, parts
        joined = os.path.normpath(text)
        parts = tuple(part for part in joined.split("/") if part != ".")
        if ".." in parts:
            raise Refusal("scope.outside", path=shown)
        if any(part.lstrip().startswith(".") for part in parts):
            raise Refusal("scope.hidden", path=shown)
        return None, parts

    def _unalias(self, path: str) -> str:
        for alias, real in self._aliases.items():
            if alias != real and is_inside(path, alias):
                return os.path.normpath(real + path[len(alias) :])
        return path

    def _root_of(self, path: str) -> str | None:
        return max((root for root in self.roots if is_inside(path, root)), key=len, default=None)

    def _split(self, path: str) -> tuple[str, tuple[str, ...]]:
        """The root of `path` and its components below; raises Refusal when it is out of reach."""
        root = self._root_of(path)
        parts = tuple(part for part in path[len(root or "") :].split("/") if part)
        if root is None or ".." in parts or "\0" in path:
            raise Refusal("scope.outside", path=self.shown(path))
        if self.is_hidden(path):
            raise Refusal("scope.hidden", path=self.shown(path))
        return root, parts

    def _admit(self, path: str) -> str:
        """The real path of `path` if that is in reach; raises Refusal for a link that leads elsewhere."""
        try:
            real = os.path.realpath(path, strict=True)
            self._split(real)
        except OSError as error:
            raise refusal_of(error, self.shown(path)) from error
        except Refusal as refusal:
            raise refusal if real == path else Refusal("scope.link", path=self.shown(path)) from None
        return real

    def _refusal(self, error: OSError, path: str, folder: int | None = None, name: str = "") -> Refusal:
        if folder is not None and error.errno in (errno.ENOTDIR, errno.ELOOP):
            return self._not_regular(path, folder, name)
        return refusal_of(error, self.shown(path))

    def _not_regular(self, path: str, folder: int, name: str) -> Refusal:
        """Why the component `name` of `path` in the open folder is not what it has to be."""
        try:
            kind = kind_of(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except OSError as error:
            return refusal_of(error, self.shown(path))
        keys = {
            "file": "scope.not_dir",
            "dir": "scope.not_file",
            "link": "scope.link",
            "other": "scope.special",
        }
        return Refusal(keys[kind], path=self.shown(path))


def is_inside(path: str, folder: str) -> bool:
    """Whether the normal absolute path `path` is `folder` or lies below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _item(path: str, status: os.stat_result) -> Item:
    is_dir = stat.S_ISDIR(status.st_mode)
    return Item(path, is_dir, status.st_size, status.st_mtime_ns, (status.st_dev, status.st_ino))
