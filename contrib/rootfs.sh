#!/bin/sh
# Fills DIR with all but the binary of an image: rootfs.sh DIR. Certificates are those of this machine (CERTIFICATES names another file),
# time zones those of Go.
set -eu
cd "$(dirname "$0")/.."
rm -rf "$1"
mkdir -p "$1/etc/ssl/certs" "$1/usr/share/doc/agentx" "$1/home/agentx" "$1/tmp"
chmod 1777 "$1/tmp"
cp "${CERTIFICATES:-/etc/ssl/certs/ca-certificates.crt}" "$1/etc/ssl/certs/ca-certificates.crt"
cp "$(go env GOROOT)/lib/time/zoneinfo.zip" "$1/usr/share/zoneinfo.zip"
echo 'agentx:x:65532:65532::/home/agentx:/agentx' >"$1/etc/passwd"
echo 'agentx:x:65532:' >"$1/etc/group"
cp LICENSE "$1/usr/share/doc/agentx/"
python3 contrib/python/wheels.py --licences "$1/usr/share/doc/agentx/THIRD-PARTY.txt"
