package main

import (
	"syscall"
	"time"
)

// usage is what this process has used.
type usage struct {
	cpu     time.Duration // user and system
	peakRSS int64         // bytes
}

func processUsage() usage {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}
	}
	cpu := time.Duration(r.Utime.Nano() + r.Stime.Nano())
	return usage{cpu, int64(r.Maxrss) * maxrssUnit}
}

// maxrssUnit is the unit of Rusage.Maxrss on Linux, bytes.
const maxrssUnit = 1024
