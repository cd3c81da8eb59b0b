"""Rewrites the `# error:` block of every bad spec to what is reported now; review the difference before committing it.

python tests/generator/bad_specs_update.py
"""

from __future__ import annotations

from tests.generator.test_bad_specs import FOLDER, reported, split_file

if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.yaml")):
        spec, _ = split_file(path.read_text())
        block = "".join(f"# {line}".rstrip() + "\n" for line in reported(path.name, spec).splitlines())
        path.write_text(f"{spec}# error:\n{block}")
