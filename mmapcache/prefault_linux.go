package mmapcache

import "syscall"

// populateRead is MADV_POPULATE_READ of Linux 5.14, which package syscall lacks.
const populateRead = 22

// populate makes the kernel map a window and read what is not in memory. As a system call it blocks no other goroutine
// while it waits for the disk.
func populate(window []byte) error { return syscall.Madvise(window, populateRead) }
