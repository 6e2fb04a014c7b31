"""A hook of mkdocs: a pattern in the nav of mkdocs.yml stands for the pages that match it and that nothing else names."""

import fnmatch
import pathlib


def entries(nav):
    """The pages and patterns of a nav, in order."""
    for entry in nav:
        for target in entry.values() if isinstance(entry, dict) else [entry]:
            yield from entries(target) if isinstance(target, list) else [target]


def is_pattern(entry):
    return "*" in entry


def expanded(nav, pages):
    """The nav with its patterns replaced by pages (a list of addresses); titles are those of the pages."""
    left = sorted(set(pages) - {entry for entry in entries(nav) if not is_pattern(entry)})

    def expand(part):
        out = []
        for entry in part:
            if isinstance(entry, dict):
                out.append({title: expand(target) if isinstance(target, list) else target for title, target in entry.items()})
            elif is_pattern(entry):
                matching = [page for page in left if fnmatch.fnmatch(page, entry)]
                left[:] = [page for page in left if page not in matching]
                out += matching
            else:
                out.append(entry)
        return out

    return expand(nav)


def on_config(config):
    folder = pathlib.Path(config["docs_dir"])
    config["nav"] = expanded(config["nav"], [str(page.relative_to(folder)) for page in folder.glob("**/*.md")])
    return config
