#!/usr/bin/env bash
# A PostgreSQL for tests: `start DIR` makes a cluster in the directory, serves it on a free loopback port and prints its
# URL; `stop DIR` ends that server, and no other, and removes the cluster.
# PostgreSQL refuses to run as root, so root starts it as the user of Debian's package.
set -euo pipefail

[[ $# -eq 2 && $1 =~ ^(start|stop)$ ]] || { echo "usage: tools/postgres.sh start|stop DIR" >&2; exit 2; }
command=$1
mkdir -p "$2"
cd "$2"
dir=$PWD
bin=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2>/dev/null | sort --version-sort | tail -n 1)
[[ -n $bin ]] || { echo "No PostgreSQL under /usr/lib/postgresql: install Debian's package postgresql." >&2; exit 3; }

as_owner() {
    if [[ $EUID -eq 0 ]]; then runuser -u postgres -- "$@"; else "$@"; fi
}

# A password nobody else knows, and no waiting for the disk.
make_cluster() {
    [[ $EUID -ne 0 ]] || chown postgres . password
    as_owner "$bin/initdb" --pgdata=data --username=strictreply --auth=scram-sha-256 --pwfile=password \
        --encoding=UTF8 --locale=C --no-sync >/dev/null
    cat >>data/postgresql.conf <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$dir'
fsync = off
CONF
}

# Serve on the first port that is free: only the server itself can tell, by taking it.
serve() {
    local port
    for _ in {1..20}; do
        port=$((20000 + RANDOM % 12000))
        if as_owner "$bin/pg_ctl" start --pgdata=data --log=log --silent --wait --options="-p $port" >/dev/null; then
            echo "$port"
            return
        fi
    done
    tail -n 20 log >&2
    return 1
}

start() {
    local password port
    password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    (umask 077 && echo "$password" >password)
    make_cluster
    rm password
    port=$(serve)
    echo "postgresql://strictreply:$password@127.0.0.1:$port/postgres"
}

stop() {
    as_owner "$bin/pg_ctl" stop --pgdata=data --mode=immediate --silent
    rm -rf data log
}

"$command"
