#!/usr/bin/env bash
# What `make check NAME=clusters` needs, on Debian 12, as root. No server is started.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get -q -o Acquire::Retries=3 update
apt-get -q -y -o Acquire::Retries=3 install --no-install-recommends \
    postgresql mariadb-server galera-4 rsync patroni python3-etcd etcd-server \
    radosgw ceph-mon ceph-osd ceph-common
