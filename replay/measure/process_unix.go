//go:build unix

package measure

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// ReadProcessUsage returns what this process has used so far.
func ReadProcessUsage() ProcessUsage {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return ProcessUsage{}
	}
	p := ProcessUsage{CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), PeakRSS: int64(u.Maxrss)}
	if runtime.GOOS != "darwin" {
		p.PeakRSS <<= 10 // the others report KiB
	}
	if peak, ok := highWater(); ok {
		p.PeakRSS = peak
	}
	return p
}

// highWater returns the peak of resident memory from /proc, bytes. The peak of getrusage survives exec: a small program that a
// large one started would report the peak of the large one.
func highWater() (int64, bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	_, rest, ok := bytes.Cut(status, []byte("\nVmHWM:"))
	if !ok {
		return 0, false
	}
	value, _, ok := bytes.Cut(rest, []byte("kB"))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
	return n << 10, err == nil
}
