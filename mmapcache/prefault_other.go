//go:build !linux

package mmapcache

import "syscall"

func populate([]byte) error { return syscall.EINVAL }
