// Package durable makes files and directories appear whole or not at all, on local disks and on NFS. When several processes
// want to make the same directory, it lets one of them.
//
// The order is always the same. A Dir is written in the staging directory of a root; every file is synced, then the Dir;
// one rename gives it its final name; the directory above is synced. A crash at any instant leaves the final name absent
// or complete. What a crash leaves in the staging directory is never read, and Sweep removes it.
//
// When several processes want the same, one holds a Lease and makes it while the others wait (lease.go). A process that
// reads leaves a note of use if it can (use.go). It waits only for a process that is removing the same (removal.go).
//
// What is made below a root is as open to group and others as the directory that it is made in, whatever the umask, but never writable
// for everybody (ModeBelow in file.go): a root that its owner has opened for a group stays usable for the group. Files of their own, such as results
// (WriteFile), are as open as the umask says.
package durable
