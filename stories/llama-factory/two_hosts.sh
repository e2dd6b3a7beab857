#!/usr/bin/env bash
# Two hosts on one machine, as network namespaces: eth0 joins them; what is sent over eth1 arrives nowhere.
# Usage: two_hosts.sh COMMAND …, run on each host with NODE_RANK and MASTER_ADDR set.
set -eu
if [ "${INSIDE:-}" != yes ]; then
    # root may make namespaces; others become root of a namespace of their own, where that is allowed
    own=$([ "$(id -u)" = 0 ] || echo --map-root-user)
    INSIDE=yes exec unshare --net $own bash "$0" "$@"
fi

unshare --net sleep infinity &
host_1=$!
trap 'kill $host_1 2>/dev/null || true' EXIT
until [ "$(readlink /proc/$host_1/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
on_host_1() { nsenter --net=/proc/$host_1/ns/net "$@"; }

ip link set lo up
on_host_1 ip link set lo up
for link in 0 1; do
    ip link add eth$link type veth peer name eth$link netns $host_1
    ip addr add 10.77.$link.1/24 dev eth$link
    on_host_1 ip addr add 10.77.$link.2/24 dev eth$link
    ip link set eth$link up
    on_host_1 ip link set eth$link up
done
# a station that does not exist: nothing answers, nothing refuses
ip neigh replace 10.77.1.2 lladdr 02:00:00:00:00:99 dev eth1 nud permanent
on_host_1 ip neigh replace 10.77.1.1 lladdr 02:00:00:00:00:99 dev eth1 nud permanent

export MASTER_ADDR=10.77.0.1
NODE_RANK=1 on_host_1 "$@" &
node_1=$!
code=0
NODE_RANK=0 "$@" || code=$?
wait $node_1 || code=$?
exit $code
