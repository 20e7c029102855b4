# What the machine that TestNFS boots runs as its first process: an NFS server over tmpfs and three clients of it, all in
# one kernel. Its root is the file system of the host, read-only. From the command line of the kernel: NFS_TEST is the test
# program, NFS_AGENTX the program that it tests, NFS_RUN which scenarios.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/run/tmp HOME=/run/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
for d in /run /mnt /var/lib/nfs; do mount -t tmpfs tmpfs $d; done
mkdir /run/tmp
echo machine >/proc/sys/kernel/hostname

# client ADDRESS NAME [OPTION]: a mount that the server takes for a machine of its own, for a client is who its host name
# says, and that has caches of its own, for the kernel knows its servers by their addresses.
client() {
	unshare --uts sh -ec 'echo $2 >/proc/sys/kernel/hostname; mount -t nfs4 -o vers=4.2,nosharecache,${3:-rw} $1:/ /mnt/$2' - "$@"
}

boot() {
	set -e
	NFS_STAGE=modules "$NFS_TEST" -test.run '^TestNFSMachine$'
	ip link set lo up
	mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs
	touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	mount -t nfsd nfsd /proc/fs/nfsd
	mount -t rpc_pipefs rpc /var/lib/nfs/rpc_pipefs
	mkdir /mnt/export /mnt/a /mnt/b /mnt/ro
	mount -t tmpfs tmpfs /mnt/export
	exportfs -i -o rw,no_root_squash,fsid=0,insecure,no_subtree_check 127.0.0.0/8:/mnt/export
	rpc.mountd -N 3
	rpc.nfsd -N 3 -G 10 -L 10 4
	client 127.0.0.1 a
	client 127.0.0.2 b
	client 127.0.0.3 ro ro
}

if (boot) >/run/boot 2>&1; then
	echo "machine: up after $(cut -d ' ' -f 1 /proc/uptime) s: Linux $(uname -r)"
	cd /run/tmp
	NFS_STAGE=scenarios "$NFS_TEST" -test.run "^TestNFSMachine\$/$NFS_RUN" -test.v -test.parallel 4
	echo "machine: exit $?"
else
	cat /run/boot
	echo "machine: no NFS"
fi
echo o >/proc/sysrq-trigger
sleep 60
