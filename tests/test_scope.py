"""What may be reached, and what a name that somebody says finds."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trees import fill, home_scope

from metnosd.keep import Keep
from metnosd.scope import Scope, is_inside
from metnosd.sentence import Question, Refusal, Sentence

WORDS = {
    "downloads": "DOWNLOAD",
    "scaricati": "DOWNLOAD",
    "descargas": "DOWNLOAD",
    "immagini": "PICTURES",
} | {"pictures": "PICTURES"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    fill(
        folder,
        "Projects/a.pdf",
        "Documents/invoices/one.txt",
        "notes.txt",
        ".ssh/id",
        "Work/Deep/Target/x.txt",
    )
    return folder


def refused(scope: Scope, text: str, want: str = "any") -> str:
    with pytest.raises(Refusal) as caught:
        scope.locate(text, want)  # type: ignore[arg-type]
    assert not isinstance(caught.value, Question)
    return caught.value.sentence.key


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("Projects", "Projects"),
        ("projects", "Projects"),
        ("PROJECTS/", "Projects"),
        (" Projects ", "Projects"),
        ("~/projects", "Projects"),
        ("~", ""),
        (".", ""),
        ("documents/INVOICES", "Documents/invoices"),
        ("Documents//./invoices", "Documents/invoices"),
        ("Documents/../Projects", "Projects"),
        ("Notes.TXT", "notes.txt"),
        ("target", "Work/Deep/Target"),
        ("deep/target/x.txt", "Work/Deep/Target/x.txt"),
        ("home", ""),
    ],
)
def test_a_name_is_found_in_any_case_and_place(home: Path, said: str, path: str) -> None:
    """A name is found in any case, with `~` or without, directly or deeper in the tree."""
    expected = str(home / path) if path else str(home)
    assert home_scope(home).locate(said) == expected
    assert home_scope(home).locate_new(said) == expected


def test_absolute_paths_are_found_also_in_another_case(home: Path) -> None:
    """An absolute path below a root is accepted."""
    assert home_scope(home).locate(f"{home}/projects/A.PDF", "file") == str(home / "Projects/a.pdf")


@pytest.mark.parametrize("want", ["dir", "any"])
def test_the_exact_name_wins_over_another_case(home: Path, want: str) -> None:
    """With Projects and projects the one that was written is meant; a third spelling is a question."""
    fill(home, "projects/")
    scope = home_scope(home)
    assert scope.locate("projects", want) == str(home / "projects")  # type: ignore[arg-type]
    assert scope.locate("Projects", want) == str(home / "Projects")  # type: ignore[arg-type]
    with pytest.raises(Question) as caught:
        scope.locate("PROJECTS", want)  # type: ignore[arg-type]
    assert caught.value.choices == ("~/Projects", "~/projects")
    assert scope.locate(caught.value.choices[1]) == str(home / "projects")


def test_the_kind_that_is_wanted_decides(home: Path) -> None:
    """A file does not hide a folder of the same name in another case, and the wrong kind is refused."""
    fill(home, "music", "Music/")
    scope = home_scope(home)
    assert scope.locate("music", "dir") == str(home / "Music")
    assert scope.locate("music", "file") == str(home / "music")
    assert refused(scope, "notes.txt", "dir") == "scope.not_dir"
    assert refused(scope, "Projects", "file") == "scope.not_file"


def test_the_nearest_level_wins_and_two_there_are_a_question(home: Path) -> None:
    """Of a name deeper in the tree the nearest one counts; two at one level are asked about."""
    fill(home, "A/Reports/", "B/C/Reports/")
    scope = home_scope(home)
    assert scope.locate("reports") == str(home / "A/Reports")
    fill(home, "Work/Reports/")
    with pytest.raises(Question) as caught:
        scope.locate("reports")
    assert caught.value.sentence.key == "scope.which"
    assert caught.value.choices == ("~/A/Reports", "~/Work/Reports")


def test_composed_and_decomposed_names_are_one(home: Path) -> None:
    """A name typed composed finds one stored decomposed, and the sharp s its capital form."""
    fill(home, "Me\u0301moires/", "STRASSE/")
    assert home_scope(home).locate("m\u00e9moires") == str(home / "Me\u0301moires")
    assert home_scope(home).locate("Stra\u00dfe") == str(home / "STRASSE")


def test_user_folders_are_found_in_every_language(home: Path) -> None:
    """The desktop's file says where "downloads" is; a word of another language means the same folder."""
    fill(home, "Scaricati/", ".config/")
    (home / ".config/user-dirs.dirs").write_text('# c\nXDG_DOWNLOAD_DIR="$HOME/Scaricati"\nXDG_MUSIC_DIR="$HOME/"\n')
    scope = home_scope(home, words=WORDS)
    for word in ("Downloads", "scaricati", "Descargas", "~/downloads"):
        assert scope.locate(word, "dir") == str(home / "Scaricati")
        assert scope.locate_new(word, "dir") == str(home / "Scaricati")


def test_user_folders_are_found_without_the_desktop_file(home: Path) -> None:
    """Without that file the folder is found under any of the names that mean it."""
    fill(home, "Pictures/summer.jpg")
    scope = home_scope(home, words=WORDS)
    assert scope.locate("Immagini", "dir") == str(home / "Pictures")
    assert scope.locate("immagini/summer.jpg") == str(home / "Pictures/summer.jpg")


def test_a_user_folder_outside_the_roots_stays_outside(home: Path, tmp_path: Path) -> None:
    """The desktop's file is no way out of the roots."""
    fill(tmp_path, "elsewhere/")
    fill(home, ".config/")
    (home / ".config/user-dirs.dirs").write_text(f'XDG_DOWNLOAD_DIR="{tmp_path}/elsewhere"\n')
    assert refused(home_scope(home, words=WORDS), "downloads") == "scope.missing"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("/etc/passwd", "scope.outside"),
        ("//etc/passwd", "scope.outside"),
        ("..", "scope.outside"),
        ("../home", "scope.outside"),
        ("Projects/../../x", "scope.outside"),
        ("~/../../etc", "scope.outside"),
        ("~root/x", "scope.outside"),
        ("~other", "scope.outside"),
        (".ssh", "scope.hidden"),
        (".ssh/id", "scope.hidden"),
        ("~/.ssh/id", "scope.hidden"),
        ("Projects/.git", "scope.hidden"),
        ("", "scope.empty"),
        (" \n", "scope.empty"),
        ("a\0b", "scope.bad_name"),
        ("\ud800", "scope.bad_name"),
        ("x" * 300, "scope.too_long"),
        ("x/" * 3000, "scope.too_long"),
        ("nothing here", "scope.missing"),
        ("Projects/nothing", "scope.missing"),
        ("notes.txt/x", "scope.missing"),
    ],
)
def test_what_is_out_of_reach_is_refused_with_the_reason(home: Path, said: str, reason: str) -> None:
    """Outside, hidden, impossible and missing names are refused, each with its reason."""
    assert refused(home_scope(home), said) == reason


def test_a_root_is_no_prefix(tmp_path: Path) -> None:
    """The root /safe does not open /safevil."""
    fill(tmp_path, "safe/a.txt", "safevil/b.txt")
    scope = home_scope(tmp_path / "safe")
    assert refused(scope, str(tmp_path / "safevil/b.txt")) == "scope.outside"
    with pytest.raises(Refusal):
        scope.open_file(str(tmp_path / "safevil/b.txt"))


def test_links_that_leave_are_refused_and_inner_ones_resolved(home: Path, tmp_path: Path) -> None:
    """A link out of the roots, into a hidden folder, or to nothing is refused; an inner one is its target."""
    fill(tmp_path, "out/secret.txt")
    for name, target in {
        "out": tmp_path / "out",
        "ssh": home / ".ssh",
        "gone": home / "no",
        "me": home / "me",
    }.items():
        (home / name).symlink_to(target)
    (home / "inner").symlink_to(home / "Projects")
    scope = home_scope(home)
    assert refused(scope, "out") == refused(scope, "out/secret.txt") == refused(scope, "ssh/id") == "scope.link"
    assert refused(scope, "me") == "scope.link"
    assert refused(scope, "gone") in ("scope.link", "scope.missing")
    assert scope.locate("inner/a.pdf") == str(home / "Projects/a.pdf")
    with pytest.raises(Refusal):
        scope.locate_new("out/new.txt", "file")


def test_a_folder_swapped_for_a_link_is_refused_at_use(home: Path) -> None:
    """A path is walked again when it is used: a link now in the way is refused even if it stays inside."""
    scope = home_scope(home)
    path = scope.locate("Projects/a.pdf", "file")
    os.close(scope.open_file(path))
    (home / "Projects").rename(home / "Moved")
    (home / "Projects").symlink_to(home / "Moved")
    for use in (scope.open_file, scope.lstat, scope.item):
        with pytest.raises(Refusal) as caught:
            use(path)
        assert caught.value.sentence.key == "scope.link"


def test_special_files_are_never_opened(home: Path) -> None:
    """Pipes and sockets are neither located, opened nor scanned; opening a pipe would wait for ever."""
    os.mkfifo(home / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(home / "sock"))
    listening.close()
    scope = home_scope(home)
    for name in ("pipe", "sock"):
        assert refused(scope, name) == "scope.special"
        with pytest.raises(Refusal) as caught:
            scope.open_file(str(home / name))
        assert caught.value.sentence.key == "scope.special"
    assert {item.name for item in scope.scan(str(home))}.isdisjoint({"pipe", "sock"})


def test_scanning_follows_no_link_and_shows_nothing_hidden(home: Path, tmp_path: Path) -> None:
    """A scan gives regular files and folders, in order, and is not led out or in circles by links."""
    (home / "Work/loop").symlink_to(home)
    (home / "etc").symlink_to("/etc")
    names = [item.path.removeprefix(f"{home}/") for item in home_scope(home).scan(str(home))]
    assert sorted(names) == [
        "Documents",
        "Documents/invoices",
        "Documents/invoices/one.txt",
        "Projects",
        "Projects/a.pdf",
        "Work",
        "Work/Deep",
        "Work/Deep/Target",
        "Work/Deep/Target/x.txt",
        "notes.txt",
    ]


def test_a_scan_stops_at_its_limit_and_says_so(home: Path) -> None:
    """No tree is too large: the scan ends and the reason is among the problems."""
    problems: list[Sentence] = []
    assert len(list(home_scope(home).scan(str(home), limit=3, problems=problems))) == 3
    assert [problem.key for problem in problems] == ["scope.too_many"]


def test_new_things_are_placed_where_they_were_said(home: Path) -> None:
    """What does not exist goes below the part that does, a folder of it being found deeper in the tree."""
    scope = home_scope(home)
    assert scope.locate_new("new.txt", "file") == str(home / "new.txt")
    assert scope.locate_new("projects/New/b.txt", "file") == str(home / "Projects/New/b.txt")
    assert scope.locate_new("target/y.txt", "file") == str(home / "Work/Deep/Target/y.txt")
    assert scope.locate_new("~/Backup", "dir") == str(home / "Backup")
    assert scope.locate_new(f"{home}/Backup/2026", "dir") == str(home / "Backup/2026")
    assert scope.locate_new("x.txt", "file") == str(home / "x.txt")
    for said in ("../x", ".x", "a/.b", "/etc/x", "~root/x", "a\0", "y" * 256):
        with pytest.raises(Refusal):
            scope.locate_new(said)
    with pytest.raises(Refusal) as caught:
        scope.locate_new("notes.txt/x")
    assert caught.value.sentence.key == "scope.not_dir"


def test_odd_names_work_and_are_shown_escaped(home: Path) -> None:
    """Names that are no UTF-8, or hold newlines, controls or bidirectional signs, work and are shown escaped."""
    odd = [b"caf\xe9.txt", b"two\nlines.txt", "a\u202etxt.exe".encode(), b"\x1b[31mred"]
    for name in odd:
        (home / os.fsdecode(name)).write_bytes(name)
    scope = home_scope(home)
    for name in odd:
        path = scope.locate(os.fsdecode(name), "file")
        with os.fdopen(scope.open_file(path), "rb") as file:
            assert file.read() == name
        assert scope.shown(path).isprintable()
    assert scope.shown(str(home / os.fsdecode(odd[0]))) == "~/caf\\xe9.txt"
    assert scope.shown(str(home / os.fsdecode(odd[1]))) == "~/two\\nlines.txt"


def test_a_home_that_is_a_link_is_understood(home: Path, tmp_path: Path) -> None:
    """Paths below the home as it is written mean those below the folder that it leads to."""
    link = tmp_path / "alias"
    link.symlink_to(home)
    scope = Scope([str(link)], home=str(link))
    assert scope.roots == (str(home),)
    assert scope.locate(f"{link}/projects") == str(home / "Projects")
    assert scope.shown(str(home / "Projects")) == "~/Projects"


def test_several_roots(tmp_path: Path) -> None:
    """A name in two roots is a question; without any root, or with one that is gone, all is refused."""
    fill(tmp_path, "one/Pics/", "two/Pics/", "two/only.txt")
    scope = Scope([str(tmp_path / "one"), str(tmp_path / "two")], home=None)
    with pytest.raises(Question):
        scope.locate("pics")
    assert scope.locate("only.txt") == str(tmp_path / "two/only.txt")
    assert refused(scope, "~/x") == "scope.outside"
    assert refused(Scope([], home=None), "x") == "scope.no_roots"
    assert refused(Scope([str(tmp_path / "gone")], home=None), "x") == "scope.missing"


def test_what_is_closed_or_kept_is_out_of_reach(home: Path) -> None:
    """The folders of the daemon are out of reach though they lie below a root, the keep without asking."""
    fill(home, "state/db", "kept/trash/x/a.txt")
    scope = Scope([str(home)], home=str(home), keep=Keep(home / "kept"), closed=[str(home / "state")])
    for said in ("state", "state/db", "kept", "kept/trash/x/a.txt", str(home / "kept")):
        with pytest.raises(Refusal):
            scope.locate(said)
    names = {item.name for item in scope.scan(str(home))}
    assert not names & {"state", "db", "kept", "trash", "a.txt"}
    with pytest.raises(Refusal):
        Scope([str(home)], home=None, closed=[str(home.parent)]).locate("projects")


PIECES = st.sampled_from(
    [
        "a",
        "A",
        "b",
        "out",
        "in",
        "..",
        ".",
        "",
        "~",
        "~x",
        ".h",
        "a b",
        "\n",
        "\udcff",
        "ö",
        "o\u0308",
        "/",
        "//",
    ]
)


@settings(max_examples=120, deadline=None)
@given(st.lists(PIECES, max_size=6), st.sampled_from(["dir", "file", "any"]), st.booleans())
def test_no_words_lead_out(pieces: list[str], want: str, absolute: bool) -> None:
    """Whatever is said, the answer is a visible path inside the root that leads nowhere else, or a refusal."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(os.path.realpath(folder))
        fill(base, "out/a/b", "out/secret", "home/a/b/a", "home/.h/a", "home/in/a", "home/ö/A")
        for name, target in {
            "out": "../out",
            "a/out": "../../out",
            "b": "a",
            "in/h": "../.h",
            "in/up": "..",
        }.items():
            (base / "home" / name).symlink_to(target)
        scope = home_scope(base / "home")
        text = "/".join(([str(base), "home"] if absolute else []) + pieces)
        for find in (scope.locate, scope.locate_new):
            try:
                path = find(text, want)  # type: ignore[arg-type]
            except Refusal:
                continue
            assert is_inside(path, str(base / "home"))
            assert not scope.is_hidden(path)
            assert is_inside(os.path.realpath(path), str(base / "home"))
            assert "/.h" not in os.path.realpath(path)
            if find == scope.locate:
                assert os.path.exists(path)
                assert os.path.realpath(path) == path


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=50) | st.binary(max_size=50).map(os.fsdecode))
def test_any_text_gives_a_path_or_a_refusal(text: str) -> None:
    """No text raises anything but a refusal."""
    with tempfile.TemporaryDirectory() as folder:
        scope = home_scope(Path(folder) / "home")
        for find in (scope.locate, scope.locate_new):
            try:
                find(text)
            except Refusal as refusal:
                assert refusal.sentence.key.startswith("scope.")
                str(refusal.sentence.values).encode()
