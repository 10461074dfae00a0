"""The systemd units of the packages: how far systemd holds them, and that they work so."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from release.units import unit_files
from tests.release.built.roots import run_units, this_system, why_no_systemd
from tests.support.where_it_runs import Run

Dist = dict[str, Path]
TIMEOUT = 120
MAX_EXPOSURE = {"nictop-metrics": 2.2, "nictop-record": 4.2}
"""systemd-analyze security: 0 (nothing) to 10 (everything); a recorder of root reads what only root
may."""
needs_systemd = pytest.mark.skipif(bool(why_no_systemd()), reason=why_no_systemd())

CHECK_UNIT = """\
[Unit]
Requires=nictop-metrics.service nictop-record.service
After=nictop-metrics.service nictop-record.service

[Service]
Type=oneshot
TimeoutStartSec=200
StandardOutput=file:/run/out
StandardError=file:/run/out
ExecStart=/bin/sh /check.sh
ExecStopPost=-/bin/kill -s RTMIN+14 1
"""
CHECK = """\
for attempt in $(seq 100); do
    if python3 -I /scrape.py && nictop show /var/log/nictop >/run/recorded 2>&1; then
        break
    fi
    sleep 1
done
nictop show /var/log/nictop
systemctl show --property=ActiveState,SubState,Result,ExecMainStatus nictop-metrics nictop-record
stat -c '%a %U %n' /var/log/nictop
cat /run/nictop-metrics.log /run/nictop-record.log
"""
SCRAPE = """\
import sys, urllib.request
try:
    text = urllib.request.urlopen("http://127.0.0.1:9807/metrics", timeout=5).read().decode()
except OSError as error:
    sys.exit(str(error))
lines = [line for line in text.splitlines() if line.startswith(("nictop_host_up", "nictop_link_mtu_bytes"))]
print(*lines, sep="\\n")
sys.exit(not any(line.startswith("nictop_link_mtu") for line in lines))
"""


def unit_file(name: str, folder: Path) -> Path:
    (text,) = (text for path, text in unit_files().items() if path.endswith(f"/{name}.service"))
    file = folder / f"{name}.service"
    file.write_text(text)
    return file


@pytest.mark.parametrize("name", MAX_EXPOSURE)
def test_systemd_holds_them(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", unit_file(name, tmp_path)],
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(exposure) <= MAX_EXPOSURE[name], done.stdout


@needs_systemd
def test_both_services_work_under_systemd(
    dist: Dist, tmp_path: Path, record_run: Callable[[Run], None]
) -> None:
    """In a copy of this machine's files, with systemd as process 1."""
    for name, text in (("check.service", CHECK_UNIT), ("check.sh", CHECK), ("scrape.py", SCRAPE)):
        (tmp_path / name).write_text(text)
    output = tmp_path / "output"
    output.touch()
    setup = f"""
        cp {dist["amd64.deb"]} package.deb
        cp {tmp_path}/check.sh {tmp_path}/scrape.py .
        cp {tmp_path}/check.service etc/systemd/system/
        touch run/out
        mount --bind {output} run/out
        for name in nictop-metrics nictop-record; do
            mkdir etc/systemd/system/$name.service.d
            printf '[Service]\nStandardOutput=append:/run/%s.log\nStandardError=append:/run/%s.log\n' \\
                $name $name >etc/systemd/system/$name.service.d/log.conf
        done
        echo 'METRICS_OPTIONS=--interval 1' >etc/default/nictop
        chroot . dpkg -i /package.deb
    """
    run_units(tmp_path / "root", setup)
    text = output.read_text()
    assert f'nictop_host_up{{host="{platform.node()}"}} 1' in text, text
    assert 'device="lo"' in text, text
    assert text.count("ActiveState=active") == 2, text
    assert "700 root /var/log/nictop" in text, text
    assert "recorded 20" in text, text
    (version,) = re.findall(
        r"systemd (\d+)", subprocess.check_output(["systemctl", "--version"], text=True)
    )
    record_run(Run("systemd units", f"{this_system()}, systemd {version}", "x86-64", ""))
