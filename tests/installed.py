"""A package as an installer leaves it: one module, and the entry points it brings."""


def install(folder, name, text, **entry_points):
    """Put module `name` with this text into a folder; entry points as group="NAME = MODULE:THING"."""
    (folder / f"{name}.py").write_text(text)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[isotherm.{group}]\n{point}\n" for group, point in entry_points.items()]
    (info / "entry_points.txt").write_text("".join(lines))
