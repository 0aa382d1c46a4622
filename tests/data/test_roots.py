"""Where data is looked for."""

from isotherm.data import roots, sets


def test_the_root_is_what_was_given_then_the_environment_then_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "a"))
    assert roots.root() == tmp_path / "a"
    assert roots.root(tmp_path / "b") == tmp_path / "b"
    assert roots.cache() == tmp_path / "a" / "cache"
    monkeypatch.delenv("ISOTHERM_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert roots.root() == tmp_path / "c" / "isotherm" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "d"))
    assert roots.root() == tmp_path / "d" / ".cache" / "isotherm" / "data"


def test_a_set_that_is_not_in_the_data_root_may_be_in_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("ISOTHERM_DATA", str(tmp_path / "a"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    mnist = sets.named("mnist")
    own = tmp_path / "c/isotherm/data" / mnist.folder
    assert mnist.place() == tmp_path / "a" / mnist.folder
    own.mkdir(parents=True)
    for name in mnist.files[0]:
        (own / name).write_bytes(b"x")
    assert mnist.there()
    assert mnist.place() == own
    assert not mnist.there(tmp_path / "a")
