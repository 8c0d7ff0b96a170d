"""A plan as files: the same deployment as separate processes, under honcho or systemd. Pure."""

import hashlib
import os
import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from millstream.local.declare import script_name
from millstream.local.plan import BROKER, GATEWAY, WORKER, Plan, Role

_HEADER = re.compile(
    r"# Written by `millstream export`, which replaces this file unless it is edited; "
    r"([0-9a-f]{16})\n"
)
_HARDENED = (
    "NoNewPrivileges=yes",
    "PrivateTmp=yes",
    "ProtectSystem=full",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "SystemCallArchitectures=native",
)
_HARDENED_MORE = (
    "PrivateDevices=yes",
    "ProtectHome=read-only",
    "ProtectSystem=strict",
    "RestrictNamespaces=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "CapabilityBoundingSet=",
    "LimitNOFILE=65536",
)
"""For gateway and broker. Workers need GPUs, and write their caches where their libraries want."""


class Site(NamedTuple):
    """Where the files will lie, and who runs what is in them."""

    folder: str
    """As an absolute path."""
    command: tuple[str, ...]
    """The program `millstream`, for who has no PATH."""
    user: str


def export_files(plan: Plan, site: Site) -> dict[str, str]:
    """The text of each file, by its path from the folder on."""
    name = script_name(plan.file)
    roles = [_with_variable_port(role, plan) for role in plan.roles]
    files = {
        "Procfile": _procfile(roles, name, site),
        ".env": _env(plan),
        f"{name}.toml": plan.pipelines,
        f"systemd/{name}.target": _target(name, roles),
    }
    for role in roles:
        files[f"systemd/{name}-{role.name}.service"] = _unit(role, name, plan, site)
    return {path: _headed(text) for path, text in files.items()}


def is_untouched(text: str) -> bool:
    """Whether a file is as an export has written it."""
    header = _HEADER.match(text)
    return header is not None and header[1] == _digest(text[header.end() :])


def _headed(text: str) -> str:
    return (
        "# Written by `millstream export`, which replaces this file unless it is edited; "
        f"{_digest(text)}\n{text}"
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _with_variable_port(role: Role, plan: Plan) -> Role:
    """The port stands in .env alone."""
    if role.command != GATEWAY or plan.uds:
        return role
    kept = list(role.options)
    if "--port" in kept:
        at = kept.index("--port")
        del kept[at : at + 2]
    return Role(name=role.name, command=GATEWAY, options=("--port", "$PORT", *kept), env=role.env)


# ------------------------------------------------------------------ honcho


def _procfile(roles: Sequence[Role], name: str, site: Site) -> str:
    lines = []
    for role in roles:
        script = os.path.relpath(role.script, site.folder) if role.script else ""
        words = role.arguments(f"{name}.toml", script=script)
        shown = " ".join(word if word == "$PORT" else shlex.quote(word) for word in words)
        lines.append(f"{role.name}: exec millstream {shown}\n")
    return "".join(lines)


def _env(plan: Plan) -> str:
    values = {"PYTHONUNBUFFERED": "1"}
    if not plan.uds:
        values["PORT"] = str(plan.port)
    if plan.broker:
        values["MILLSTREAM_BROKER"] = plan.broker
    for role in plan.roles:
        values |= role.env
    return "".join(f"{key}={value}\n" for key, value in values.items())


# ------------------------------------------------------------------ systemd


def _target(name: str, roles: Sequence[Role]) -> str:
    services = " ".join(f"{name}-{role.name}.service" for role in roles)
    return _sections(
        ("Unit", [f"Description=Millstream: {name}", f"Wants={services}"]),
        ("Install", ["WantedBy=multi-user.target"]),
    )


def _unit(role: Role, name: str, plan: Plan, site: Site) -> str:
    words = role.arguments(os.path.join(site.folder, f"{name}.toml"))
    service = ["Type=exec"]
    if site.user:
        service.append(f"User={site.user}")
    service.append(f"WorkingDirectory={_escaped(os.path.dirname(plan.file))}")
    if not plan.broker:
        # The folder is the broker's; the others find it there.
        service.append(f"Environment=MILLSTREAM_BROKER=ipc:///run/millstream-{name}/broker.sock")
    service.append(f"EnvironmentFile={_escaped(os.path.join(site.folder, '.env'))}")
    if role.command == BROKER:
        service += [
            f"RuntimeDirectory=millstream-{name}",
            "RuntimeDirectoryMode=0700",
            "RuntimeDirectoryPreserve=restart",
            f"StateDirectory=millstream-{name}",
            "StateDirectoryMode=0700",
        ]
        if "--state" not in words:
            words += ["--state", f"/var/lib/millstream-{name}/traffic.db"]
    service += [
        f"ExecStart={_command((*site.command, *words))}",
        "Restart=always",
        "RestartSec=1",
        "RestartPreventExitStatus=2",
        "KillMode=mixed",
        "TimeoutStopSec=10",
    ]
    hardened = _HARDENED if role.command == WORKER else _hardened_more()
    # A /tmp of its own hides what lies in the other.
    paths = (site.folder, plan.file, plan.broker, plan.uds, *site.command, *words)
    is_in_tmp = any(path.startswith(("/tmp/", "/var/tmp/", "ipc:///tmp/")) for path in paths)
    service += [line for line in hardened if not (is_in_tmp and line == "PrivateTmp=yes")]
    return _sections(
        (
            "Unit",
            [
                f"Description=Millstream: {name}, {role.name}",
                f"PartOf={name}.target",
                "After=network.target",
            ],
        ),
        ("Service", service),
        ("Install", [f"WantedBy={name}.target"]),
    )


def _hardened_more() -> Sequence[str]:
    keys = {line.partition("=")[0] for line in _HARDENED_MORE}
    return [
        *(line for line in _HARDENED if line.partition("=")[0] not in keys),
        *_HARDENED_MORE,
    ]


def _sections(*sections: tuple[str, list[str]]) -> str:
    return "\n".join(
        f"[{title}]\n" + "".join(f"{line}\n" for line in lines) for title, lines in sections
    )


def _command(words: Sequence[str]) -> str:
    return " ".join("${PORT}" if word == "$PORT" else _quoted(word) for word in words)


def _quoted(word: str) -> str:
    """One word of ExecStart=."""
    text = _escaped(word).replace("$", "$$")
    if re.fullmatch(r"[A-Za-z0-9_@%+=:,./$-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
