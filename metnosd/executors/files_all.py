"""The executors on files and on entries, in the order in which they are listed."""

from __future__ import annotations

from metnosd.executor import Executor
from metnosd.executors.archives import compress_files, extract_archives
from metnosd.executors.change import copy_files, delete_files, move_files, rename_files
from metnosd.executors.digests import compute_signatures, find_duplicates
from metnosd.executors.find import find_files, list_dirs
from metnosd.executors.lists import count_entries, filter_entries, limit_entries, sort_entries
from metnosd.executors.read import read_files
from metnosd.executors.write import create_dirs, write_files

FILE_EXECUTORS: tuple[Executor, ...] = (
    find_files,
    list_dirs,
    read_files,
    write_files,
    create_dirs,
    move_files,
    copy_files,
    rename_files,
    delete_files,
    compute_signatures,
    find_duplicates,
    compress_files,
    extract_archives,
    sort_entries,
    filter_entries,
    limit_entries,
    count_entries,
)
