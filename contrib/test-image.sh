#!/bin/sh
# Builds the image and looks into it: test-image.sh AGENTX DIR. AGENTX is a static binary of this machine. Wants buildah, podman or docker.
set -eu
binary=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
mkdir -p "$2"
context=$(realpath "$2")/context
fail() {
	echo "test-image: $*" >&2
	exit 1
}
! readelf -l "$binary" | grep -q INTERP || fail "the binary wants a loader: it is not static"
rm -rf "$context"
mkdir -p "$context/linux/amd64"
cp "$binary" "$context/linux/amd64/agentx"
"$root/contrib/rootfs.sh" "$context/rootfs"
grep -q 'BEGIN CERTIFICATE' "$context/rootfs/etc/ssl/certs/ca-certificates.crt" || fail "no certificates"
python3 -m zipfile -l "$context/rootfs/usr/share/zoneinfo.zip" | grep -q 'Europe/Berlin ' || fail "no time zones"
grep -q 'spf13/cobra' "$context/rootfs/usr/share/doc/agentx/THIRD-PARTY.txt" || fail "no licences"
for tool in buildah podman docker; do
	if command -v $tool >/dev/null && $tool info >/dev/null 2>&1; then
		break
	fi
	tool=
done
test -n "$tool" || {
	echo "test-image: its parts are good; no image: there is no buildah, podman or docker that works"
	exit 0
}
case $tool in
buildah)
	buildah build --quiet --isolation chroot --storage-driver vfs -t agentx:test -f "$root/Dockerfile" "$context" >/dev/null
	inspect=$(buildah inspect --storage-driver vfs --type image --format '{{len .OCIv1.RootFS.DiffIDs}} {{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}' agentx:test)
	from=$(buildah from --storage-driver vfs agentx:test)
	trap 'buildah rm --storage-driver vfs "$from" >/dev/null; buildah rmi --storage-driver vfs agentx:test >/dev/null' EXIT
	agentx() { buildah run --storage-driver vfs --isolation chroot "$from" -- /agentx "$@"; }
	;;
*)
	$tool build -q -t agentx:test -f "$root/Dockerfile" "$context" >/dev/null
	inspect=$($tool image inspect --format '{{len .RootFS.Layers}} {{.Config.User}} {{.Config.Entrypoint}}' agentx:test)
	agentx() { $tool run --rm agentx:test "$@"; }
	;;
esac
test "$inspect" = "1 65532:65532 [/agentx]" || fail "layers, user and entry point: $inspect"
agentx --version
agentx demo --quiet >/dev/null || fail "the demo fails as user 65532"
echo "ok  image by $tool"
