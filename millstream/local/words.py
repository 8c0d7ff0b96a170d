"""What is told when all is ready: where it listens, what runs, how to stop it. Pure."""

from collections.abc import Mapping

from millstream.local.mistakes import shown_path
from millstream.local.plan import Plan, Role


def announcement(plan: Plan, *, url: str, broker: str, has_docs: bool) -> str:
    """The block for whoever has started it."""
    rows = [(name, " → ".join(chain), _ways(name, plan)) for name, chain in plan.chains.items()]
    width, chain_width = (max(len(row[at]) for row in rows) for at in (0, 1))
    lines = [f"{shown_path(plan.file)} serves at {url}", ""]
    lines += [f"  {name:<{width}}  {chain:<{chain_width}}  {ways}" for name, chain, ways in rows]
    lines += ["", f"  workers  {', '.join(map(_workers, plan.stages))}"]
    pages = [f"{url}/{page}" for page in (("docs", "ui") if has_docs else ("openapi.json", "ui"))]
    lines += [f"  pages    {'  '.join(pages)}"] if not plan.uds else []
    lines += [
        f"  broker   {broker}",
        "",
        f"millstream status --broker {broker} shows how it goes; Ctrl-C ends it.",
    ]
    return "\n".join(lines) + "\n"


def _ways(name: str, plan: Plan) -> str:
    way = f"POST /pipelines/{name}"
    if routes := plan.routes.get(name):
        return f"POST {' or '.join(routes)}"
    return f"{way} or /inference" if len(plan.chains) == 1 else way


def _workers(role: Role) -> str:
    options = _options(role)
    words = [role.name]
    if (count := options.get("--processes", "1")) != "1":
        words.append(f"× {count}")
    if device := options.get("--device"):
        words.append(f"on {device}")
    return " ".join(words)


def _options(role: Role) -> Mapping[str, str]:
    """The options with a value; flags are not asked for here."""
    return dict(zip(role.options, role.options[1:], strict=False))
