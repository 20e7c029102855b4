package durable

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// owner identifies a process and one thing that it does, among all processes on all machines.
type owner struct {
	host         string
	boot         string // id of the boot of the machine; no two machines share one
	pidNamespace string // in which pid counts; unknown where it cannot be read
	pid          int
	random       string // tells two things apart that one process does
}

const unknown = "unknown"

// thisProcess is the owner that this process is, without the random part.
var thisProcess = sync.OnceValue(func() owner {
	read := func(text string, err error) string {
		clean := strings.Map(func(r rune) rune {
			if r == '/' || r == '_' || r <= ' ' {
				return '-'
			}
			return r
		}, strings.TrimSpace(text))
		if err != nil || clean == "" {
			return unknown
		}
		return clean
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	o := owner{host: read(os.Hostname()), boot: read(string(boot), err), pidNamespace: unknown, pid: os.Getpid()}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil { // pid:[4026531836]
		o.pidNamespace = strings.Trim(strings.TrimPrefix(ns, "pid:"), "[]")
	}
	return o
})

// newOwner returns this process as the owner of one thing that it makes.
func newOwner() owner {
	o := thisProcess()
	var random [8]byte
	_, _ = rand.Read(random[:]) // crypto/rand never fails
	o.random = hex.EncodeToString(random[:])
	return o
}

// fileName returns the owner as a file name: host_boot_namespace_pid_random.
func (o owner) fileName() string {
	return fmt.Sprintf("%s_%s_%s_%d_%s", o.host, o.boot, o.pidNamespace, o.pid, o.random)
}

// describe names the owner in messages.
func (o owner) describe() string {
	if o == (owner{}) {
		return "an unknown process"
	}
	return fmt.Sprintf("process %d on %s", o.pid, o.host)
}

// parseOwner reads what fileName writes.
func parseOwner(name string) (o owner, ok bool) {
	parts := strings.Split(name, "_")
	if len(parts) != 5 {
		return o, false
	}
	pid, err := strconv.Atoi(parts[3])
	return owner{host: parts[0], boot: parts[1], pidNamespace: parts[2], pid: pid, random: parts[4]}, err == nil && pid > 0
}

// dead reports whether the owner is a process of this machine that has certainly ended.
func (o owner) dead() bool {
	me := thisProcess()
	if o.boot == unknown || o.pidNamespace == unknown || o.boot != me.boot || o.pidNamespace != me.pidNamespace {
		return false
	}
	return processEnded(o.pid)
}

// foreignSilence is for how long an owner must have been silent to count as gone where this machine cannot tell more.
const foreignSilence = time.Hour

// leftBehind reports whether the owner is gone for good: it is dead; or it is of an earlier boot of this host and silent for
// three heartbeats; or it is silent for an hour and three heartbeats, because systems reuse process numbers.
func (o owner) leftBehind(silent, beat time.Duration) bool {
	me := thisProcess()
	return o.dead() || o.host == me.host && o.boot != me.boot && silent > 3*beat || silent > foreignSilence+3*beat
}
