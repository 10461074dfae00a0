"""``nictop metrics``: counters and findings of hosts over HTTP, for Prometheus."""

from __future__ import annotations

import argparse
from functools import partial

from nictop.cli import output
from nictop.cli.arguments import add_hosts
from nictop.cli.hosts import connect_host, wanted_hosts

EXAMPLES = """\
examples:
  nictop metrics vm1 vm2                     at 127.0.0.1:9807
  nictop metrics vm1 --listen 192.0.2.5:9807

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from nictop.metrics import DEFAULT_ADDRESS

    parser.description = (
        "Watch hosts and export their counters and findings to Prometheus over HTTP at /metrics, "
        "until SIGINT or "
        "SIGTERM. A scrape returns the newest readings and does not query the hosts."
    )
    parser.epilog = EXAMPLES + (
        "Exit codes: 0 stopped by a signal, 2 usage error or cannot listen on the address."
    )
    add_hosts(parser)
    parser.add_argument(
        "--listen",
        default=DEFAULT_ADDRESS,
        metavar="ADDRESS:PORT",
        help="address to listen on; port 0: any free port (default: %(default)s, this machine "
        "only)",
    )
    parser.add_argument(
        "--web.config.file",
        dest="web_config",
        default="",
        metavar="FILE",
        help="TLS and users with passwords, as for Prometheus exporters (tls_server_config, "
        "basic_auth_users)",
    )
    parser.add_argument(
        "--server-name",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which clients reach this server; may be repeated. Always accepted: "
        "addresses, the host name, "
        "names without a dot",
    )
    parser.add_argument(
        "--dashboard", action="store_true", help="print a Grafana dashboard (JSON) and exit"
    )


def run(options: argparse.Namespace) -> int:
    if options.dashboard:
        from importlib.resources import files

        return output.write(
            files("nictop.metrics").joinpath("grafana.json").read_text(encoding="utf-8")
        )
    import asyncio

    from nictop.metrics.host_names import HostNames
    from nictop.metrics.server import parse_listen_address
    from nictop.metrics.service import serve
    from nictop.metrics.web_config import WebConfig, read_web_config

    listening = parse_listen_address(options.listen)
    names = HostNames(options.server_name, output.print_error)
    web = read_web_config(options.web_config) if options.web_config else WebConfig()
    hosts = wanted_hosts(options.hosts)
    settings = {"encryption": web.context, "authentication": web.users}
    missing = [what for what, setting in settings.items() if setting is None]
    if missing and not listening.is_loopback:
        output.print_error(
            f"warning: other machines can reach {listening}",
            f"it has no {' and no '.join(missing)} (--web.config.file)",
        )

    work = serve(
        hosts,
        partial(connect_host, options=options),
        listening,
        interval=options.interval,
        report_status=output.print_error,
        names=names,
        web=web,
    )
    asyncio.run(work)
    return 0
